//! Targets: verdicts, jumps and target extensions, parsed and printed.
//!
//! A target is parsed completely or not at all: with one unknown option it is kept as an
//! [`Extension`].

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::condition::MarkBits;
use super::token::{Extension, Flag, OptionGroup, Word};

/// Target of a rule: the words after `-j` or `-g`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The packet leaves this hook and continues with the next.
    Accept,
    /// The packet is dropped without a reply.
    Drop,
    /// Continues in the calling chain.
    Return,
    /// The packet is rejected with an error. `None` is "port unreachable" of either family, in any
    /// spelling.
    Reject(Option<Box<str>>),
    /// Calls another chain, then continues in this one.
    Jump(Box<str>),
    /// Continues in another chain, then in the caller of this one.
    Goto(Box<str>),
    /// Changes the mark and continues; all spellings of `MARK` have this form.
    Mark(MarkBits),
    /// Translates the destination to one address.
    Dnat {
        address: IpAddr,
        /// New port; `None` keeps the port.
        port: Option<u16>,
    },
    /// Translates the source to the address of the outgoing interface, without a range of ports.
    Masquerade { is_fully_random: bool },
    /// Any other target, or one of these with an unsupported option; without a name, a whole rule
    /// that could not be parsed.
    Other(Extension),
}

impl Target {
    /// Parses the target; the first flag of the group is the `-j` or `-g` itself. Returns `None`
    /// if there is none.
    pub(super) fn read(group: &OptionGroup<'_>) -> Option<Self> {
        let (jump, flags) = group.flags.split_first()?;
        let known = known(group.name, *jump, flags);
        Some(known.unwrap_or_else(|| Self::Other(Extension::new(group.name, flags))))
    }

    /// Returns the source address that `SNAT` sets; `None` for another target or a range.
    pub fn new_source(&self) -> Option<IpAddr> {
        match self {
            Self::Other(extension) => extension.new_source(),
            _ => None,
        }
    }

    /// Reports whether the target exempts packets from connection tracking, in either spelling.
    pub(crate) fn exempts_from_tracking(&self) -> bool {
        matches!(self, Self::Other(extension) if extension.exempts_from_tracking())
    }

    pub fn chain(&self) -> Option<&str> {
        match self {
            Self::Jump(chain) | Self::Goto(chain) => Some(chain),
            _ => None,
        }
    }
}

impl Extension {
    /// Returns the source address that `SNAT` sets; `None` for another target or a range.
    pub(crate) fn new_source(&self) -> Option<IpAddr> {
        let options = self.read_options().filter(|_| &*self.name == "SNAT")?;
        let mut options = options.iter();
        let to = options
            .find(|option| &*option.name == "--to-source")?
            .only_value()?;
        let address = to.rsplit_once(':').map_or(to, |(address, _)| address);
        let parsed = to.parse().ok();
        parsed.or_else(|| address.trim_matches(['[', ']']).parse().ok())
    }

    /// Reports whether it is a target that exempts packets from connection tracking.
    pub(crate) fn exempts_from_tracking(&self) -> bool {
        let has_option = |name: &str| {
            let options = self.read_options().unwrap_or_default();
            options.iter().any(|option| &*option.name == name)
        };
        match &*self.name {
            "NOTRACK" => true,
            "CT" => has_option("--notrack"),
            _ => false,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accept => f.write_str("-j ACCEPT"),
            Self::Drop => f.write_str("-j DROP"),
            Self::Return => f.write_str("-j RETURN"),
            Self::Reject(None) => f.write_str("-j REJECT"),
            Self::Reject(Some(with)) => write!(f, "-j REJECT --reject-with {}", Word(with)),
            Self::Jump(chain) => write!(f, "-j {}", Word(chain)),
            Self::Goto(chain) => write!(f, "-g {}", Word(chain)),
            Self::Mark(MarkBits { value, mask }) => {
                write!(f, "-j MARK --set-xmark {value:#x}/{mask:#x}")
            }
            Self::Dnat { address, port } => {
                f.write_str("-j DNAT --to-destination ")?;
                match port {
                    Some(port) => write!(f, "{}", SocketAddr::new(*address, *port)),
                    None => write!(f, "{address}"),
                }
            }
            Self::Masquerade { is_fully_random } => {
                let random = if *is_fully_random {
                    " --random-fully"
                } else {
                    ""
                };
                write!(f, "-j MASQUERADE{random}")
            }
            Self::Other(extension) if extension.name.is_empty() => f.write_str(&extension.options),
            Self::Other(extension) => {
                write!(f, "-j {}", Word(&extension.name))?;
                extension.write_options(f)
            }
        }
    }
}

/// Parses a target that is supported with all its options; `None` for any other.
fn known(name: &str, jump: Flag<'_>, flags: &[Flag<'_>]) -> Option<Target> {
    match (name, flags) {
        _ if matches!(jump.name, "-g" | "--goto") => Some(Target::Goto(name.into())),
        ("ACCEPT", []) => Some(Target::Accept),
        ("DROP", []) => Some(Target::Drop),
        ("RETURN", []) => Some(Target::Return),
        ("REJECT", flags) => reject(flags),
        ("MARK", [flag]) => MarkBits::set_by(flag.name, flag.only_value()?).map(Target::Mark),
        ("DNAT", [flag]) if flag.name == "--to-destination" => dnat(flag.only_value()?),
        ("MASQUERADE", []) => Some(Target::Masquerade {
            is_fully_random: false,
        }),
        ("MASQUERADE", [flag]) if flag.name == "--random-fully" => Some(Target::Masquerade {
            is_fully_random: true,
        }),
        // Target extensions that are legal without options, not jumps to chains.
        (
            "AUDIT" | "CHECKSUM" | "CLASSIFY" | "CLUSTERIP" | "CONNMARK" | "CONNSECMARK" | "CT"
            | "DNAT" | "DNPT" | "DSCP" | "ECN" | "HL" | "HMARK" | "IDLETIMER" | "LED" | "LOG"
            | "MARK" | "NETMAP" | "NFLOG" | "NFQUEUE" | "NOTRACK" | "QUEUE" | "RATEEST"
            | "REDIRECT" | "SECMARK" | "SET" | "SNAT" | "SNPT" | "SYNPROXY" | "TCPMSS"
            | "TCPOPTSTRIP" | "TEE" | "TOS" | "TPROXY" | "TRACE" | "TTL" | "ULOG",
            [],
        ) => None,
        (_, []) => Some(Target::Jump(name.into())),
        _ => None,
    }
}

fn reject(flags: &[Flag<'_>]) -> Option<Target> {
    let with = match flags {
        [] => return Some(Target::Reject(None)),
        [flag] if flag.name == "--reject-with" => flag.only_value()?,
        _ => return None,
    };
    Some(Target::Reject(match with {
        "icmp-port-unreachable" | "icmp6-port-unreachable" | "port-unreach" => None,
        other => Some(other.into()),
    }))
}

fn dnat(text: &str) -> Option<Target> {
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Some(Target::Dnat {
            address: socket.ip(),
            port: Some(socket.port()),
        });
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    let address: IpAddr = bare.parse().ok()?;
    Some(Target::Dnat {
        address,
        port: None,
    })
}
