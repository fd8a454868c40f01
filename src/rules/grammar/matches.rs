//! Match extensions: the options of one `-m`, parsed and printed.
//!
//! A match is parsed completely or not at all: with one unknown option it is kept as an
//! [`Extension`], so that no rule is misread.

use std::fmt;

use super::condition::{AddressTypes, ConntrackStates, MarkBits, Negatable, PortRange};
use super::probability::Probability;
use super::token::{self, Extension, Flag, OptionGroup, Word};
use crate::net::Protocol;

/// Match extension with its options in normal form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// `-m addrtype`: types of the addresses in the routing table.
    AddressType {
        /// `--src-type`.
        source: Option<Negatable<AddressTypes>>,
        /// `--dst-type`.
        destination: Option<Negatable<AddressTypes>>,
    },
    /// `-m comment`: always matches.
    Comment(Box<str>),
    /// `-m conntrack --ctstate`, without any other option.
    Conntrack(Negatable<ConntrackStates>),
    /// `-m mark`: mark of the packet, which an earlier rule may have set.
    Mark(Negatable<MarkBits>),
    /// `-m tcp`, `udp` or `sctp` with options for ports only, or without options.
    Ports {
        protocol: Protocol,
        /// `--sport`.
        source: Option<Negatable<PortRange>>,
        /// `--dport`.
        destination: Option<Negatable<PortRange>>,
    },
    /// `-m recent`: list of source addresses, which implements session affinity.
    Recent(Recent),
    /// `-m statistic --mode random`.
    Random(Negatable<Probability>),
    /// `-m state --state`, the old name of `-m conntrack --ctstate`.
    State(Negatable<ConntrackStates>),
    /// Any other match, or one of these with an unsupported option.
    Other(Extension),
}

impl Match {
    /// Parses one match. Never fails: an unknown match or option is kept as text.
    pub(super) fn read(group: &OptionGroup<'_>) -> Self {
        let flags = group.flags.as_slice();
        known(group.name, flags).unwrap_or_else(|| Self::Other(Extension::new(group.name, flags)))
    }

    /// Returns the word after `-m`. Matches of a rule are sorted by it, because their order has no
    /// effect.
    pub fn name(&self) -> &str {
        match self {
            Self::AddressType { .. } => "addrtype",
            Self::Comment(_) => "comment",
            Self::Conntrack(_) => "conntrack",
            Self::Mark(_) => "mark",
            Self::Ports { protocol, .. } => protocol.as_str(),
            Self::Recent(_) => "recent",
            Self::Random(_) => "statistic",
            Self::State(_) => "state",
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
            Self::State(states) => write_option(f, "--state", Some(states)),
            Self::Mark(mark) => write_mark(f, mark),
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
    condition: Option<&Negatable<T>>,
) -> fmt::Result {
    match condition {
        Some(condition) => write!(f, " {}{name} {}", condition.prefix(), condition.value),
        None => Ok(()),
    }
}

fn write_mark(f: &mut fmt::Formatter<'_>, mark: &Negatable<MarkBits>) -> fmt::Result {
    let MarkBits { value, mask } = mark.value;
    write!(f, " {}--mark {value:#x}", mark.prefix())?;
    if mask == u32::MAX {
        return Ok(());
    }
    write!(f, "/{mask:#x}")
}

/// Options of a `recent` match on a list of whole source addresses; other masks and lists of
/// destinations are not supported.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Recent {
    pub name: Box<str>,
    pub action: RecentAction,
    /// Maximum age of entries in seconds; `None` for any age.
    pub seconds: Option<u32>,
    /// Older entries are removed from the list.
    pub reap: bool,
}

/// Operation of a `recent` match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecentAction {
    /// Adds the source to the list; always matches.
    Set,
    /// Matches if the source is in the list.
    Check,
    /// Matches if the source is in the list, and renews its entry.
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

/// Parses a match that is supported with all its options; `None` for any other.
fn known(name: &str, flags: &[Flag<'_>]) -> Option<Match> {
    match name {
        "comment" => comment(flags),
        "tcp" | "udp" | "sctp" => ports(Protocol::from_iptables(name)?, flags),
        "mark" => mark(flags),
        "conntrack" => states("--ctstate", flags).map(Match::Conntrack),
        "state" => states("--state", flags).map(Match::State),
        "addrtype" => address_type(flags),
        "recent" => recent(flags),
        "statistic" => random(flags),
        _ => None,
    }
}

fn comment(flags: &[Flag<'_>]) -> Option<Match> {
    match flags {
        [flag] if flag.name == "--comment" && !flag.negated => {
            Some(Match::Comment(flag.only_value()?.into()))
        }
        _ => None,
    }
}

fn ports(protocol: Protocol, flags: &[Flag<'_>]) -> Option<Match> {
    let mut source = None;
    let mut destination = None;
    for flag in flags {
        let range = PortRange::read(flag.only_value()?)?.normal(flag.negated);
        match flag.name {
            "--sport" | "--source-port" => source = range,
            "--dport" | "--destination-port" => destination = range,
            _ => return None,
        }
    }
    Some(Match::Ports {
        protocol,
        source,
        destination,
    })
}

fn mark(flags: &[Flag<'_>]) -> Option<Match> {
    match flags {
        [flag] if flag.name == "--mark" => Some(Match::Mark(Negatable {
            negated: flag.negated,
            value: MarkBits::read(flag.only_value()?)?,
        })),
        _ => None,
    }
}

/// Parses a list of states, if the option is the only one.
fn states(option: &str, flags: &[Flag<'_>]) -> Option<Negatable<ConntrackStates>> {
    match flags {
        [flag] if flag.name == option => Some(Negatable {
            negated: flag.negated,
            value: ConntrackStates::read(flag.only_value()?)?,
        }),
        _ => None,
    }
}

fn address_type(flags: &[Flag<'_>]) -> Option<Match> {
    let mut source = None;
    let mut destination = None;
    for flag in flags {
        let types = Some(Negatable {
            negated: flag.negated,
            value: AddressTypes::read(flag.only_value()?)?,
        });
        match flag.name {
            "--src-type" => source = types,
            "--dst-type" => destination = types,
            _ => return None,
        }
    }
    Some(Match::AddressType {
        source,
        destination,
    })
}

fn recent(flags: &[Flag<'_>]) -> Option<Match> {
    let mut name = "DEFAULT";
    let mut action = None;
    let mut seconds = None;
    let mut reap = false;
    for flag in flags {
        if flag.negated {
            return None;
        }
        match (flag.name, flag.only_value()) {
            ("--set", None) => action = Some(RecentAction::Set),
            ("--rcheck", None) => action = Some(RecentAction::Check),
            ("--update", None) => action = Some(RecentAction::Update),
            ("--seconds", Some(value)) => seconds = Some(value.parse().ok()?),
            ("--name", Some(value)) => name = value,
            ("--reap", None) => reap = true,
            // Defaults that iptables adds when it prints the rule.
            ("--rsource", None) | ("--mask", Some(WHOLE_V4 | WHOLE_V6)) => {}
            _ => return None,
        }
    }
    Some(Match::Recent(Recent {
        name: name.into(),
        action: action?,
        seconds,
        reap,
    }))
}

pub(super) const WHOLE_V4: &str = "255.255.255.255";
pub(super) const WHOLE_V6: &str = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";

fn random(flags: &[Flag<'_>]) -> Option<Match> {
    match flags {
        [mode, chance] if mode.name == "--mode" && chance.name == "--probability" => {
            let is_random = mode.only_value() == Some("random") && !mode.negated;
            let value = Probability::read(chance.only_value()?)?;
            let negated = chance.negated;
            is_random.then_some(Match::Random(Negatable { negated, value }))
        }
        _ => None,
    }
}
