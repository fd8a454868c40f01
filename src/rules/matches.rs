//! What a rule asks beyond addresses, interfaces and protocol.
//!
//! Apart from reading so that the tracer sees values, not texts. A match is understood wholly or
//! not at all: one unknown option, and it is carried as an [`Extension`].

use std::fmt;

use super::condition::{Bits, Negatable, PortRange};
use super::multiport::MultiPort;
use super::names::{AddressTypes, States};
use super::probability::Probability;
use super::token::{self, Word};

/// One `-m`, with its options in normal form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// `-m addrtype`: what the routing table says of the addresses.
    AddressType {
        /// `--src-type`.
        source: Option<Negatable<AddressTypes>>,
        /// `--dst-type`.
        destination: Option<Negatable<AddressTypes>>,
    },
    /// `-m comment`: matches always.
    Comment(Box<str>),
    /// `-m conntrack --ctstate`, without any other option.
    Conntrack(Negatable<States>),
    /// `-m mark`: bits that an earlier rule may have set.
    Mark(Negatable<Bits>),
    /// `-m multiport`.
    MultiPort(MultiPort),
    /// `-m tcp`, `udp` or `sctp` with nothing but ports, or with nothing at all.
    Ports {
        /// The name of the match.
        protocol: crate::net::Protocol,
        /// `--sport`.
        source: Option<Negatable<PortRange>>,
        /// `--dport`.
        destination: Option<Negatable<PortRange>>,
    },
    /// `-m recent`: remembers source addresses, which is how affinity works.
    Recent(Recent),
    /// `-m statistic --mode random`.
    Random(Negatable<Probability>),
    /// Any other match, or one of these with an option not modelled.
    Other(Extension),
}

impl Match {
    /// The word after `-m`. Matches of a rule are sorted by it, because rules that differ only
    /// in the order of their matches do the same.
    pub fn name(&self) -> &str {
        match self {
            Self::AddressType { .. } => "addrtype",
            Self::Comment(_) => "comment",
            Self::Conntrack(_) => "conntrack",
            Self::Mark(_) => "mark",
            Self::MultiPort(_) => "multiport",
            Self::Ports { protocol, .. } => protocol.as_str(),
            Self::Recent(_) => "recent",
            Self::Random(_) => "statistic",
            Self::Other(extension) => &extension.name,
        }
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(extension) if extension.name.is_empty() => {
                return f.write_str(&extension.options);
            }
            _ => write!(f, "-m {}", Word(self.name()))?,
        }
        match self {
            Self::AddressType {
                source,
                destination,
            } => {
                write_option(f, "--src-type", source.as_ref())?;
                write_option(f, "--dst-type", destination.as_ref())
            }
            Self::Comment(text) => {
                f.write_str(" --comment ")?;
                token::write_text(f, text)
            }
            Self::Conntrack(states) => write_option(f, "--ctstate", Some(states)),
            Self::Mark(mark) => write_mark(f, mark),
            Self::MultiPort(ports) => write!(f, " {ports}"),
            Self::Ports {
                source,
                destination,
                ..
            } => {
                write_option(f, "--sport", source.as_ref())?;
                write_option(f, "--dport", destination.as_ref())
            }
            Self::Recent(recent) => recent.write_options(f),
            Self::Random(chance) => {
                f.write_str(" --mode random")?;
                write_option(f, "--probability", Some(chance))
            }
            Self::Other(extension) => extension.write_options(f),
        }
    }
}

fn write_option<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    asked: Option<&Negatable<T>>,
) -> fmt::Result {
    match asked {
        Some(asked) => write!(f, " {}{name} {}", asked.prefix(), asked.value),
        None => Ok(()),
    }
}

fn write_mark(f: &mut fmt::Formatter<'_>, mark: &Negatable<Bits>) -> fmt::Result {
    let Bits { value, mask } = mark.value;
    write!(f, " {}--mark {value:#x}", mark.prefix())?;
    if mask == u32::MAX {
        return Ok(());
    }
    write!(f, "/{mask:#x}")
}

/// What a `recent` match does with its list. The list holds source addresses, each whole; other
/// masks and destination lists are not modelled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Recent {
    /// The name of the list.
    pub name: Box<str>,
    /// What is done with it, or asked of it.
    pub action: RecentAction,
    /// How many seconds an entry counts.
    pub seconds: Option<u32>,
    /// Whether older entries are removed on the way.
    pub reap: bool,
}

/// The action of a `recent` match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecentAction {
    /// Writes the source down; matches always.
    Set,
    /// Matches if the source is there.
    Check,
    /// Matches if the source is there, and renews it.
    Update,
}

impl Recent {
    fn write_options(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.action {
            RecentAction::Set => " --set",
            RecentAction::Check => " --rcheck",
            RecentAction::Update => " --update",
        })?;
        if let Some(seconds) = self.seconds {
            write!(f, " --seconds {seconds}")?;
        }
        if self.reap {
            f.write_str(" --reap")?;
        }
        write!(f, " --name {}", Word(&self.name))
    }
}

/// A match or a target that is not modelled: its words, quoted again but not understood.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extension {
    /// The word after `-m` or `-j`; empty for options that belong to neither, such as `-f`.
    pub name: Box<str>,
    /// Its options in the order in which they were written.
    pub options: Box<str>,
}

impl Extension {
    pub(super) fn write_options(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.options.is_empty() {
            return Ok(());
        }
        write!(f, " {}", self.options)
    }
}
