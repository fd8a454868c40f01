//! What happens to a packet that a rule matches.
//!
//! Apart from [`Match`](super::Match) because the tracer asks them at different moments. Here too
//! a target is understood wholly or carried as words.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::condition::Bits;
use super::matches::Extension;
use super::token::Word;

/// What follows `-j` or `-g`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The packet is done with this hook.
    Accept,
    /// The packet vanishes.
    Drop,
    /// Back to the calling chain.
    Return,
    /// The packet is answered with an error. `None` is "port unreachable" of either family,
    /// however it was spelled.
    Reject(Option<Box<str>>),
    /// The rules of another chain, then back.
    Jump(Box<str>),
    /// The rules of another chain, then back to the caller of this one.
    Goto(Box<str>),
    /// Changes the mark and goes on; every spelling of `MARK` is one of these.
    Mark(Bits),
    /// Another destination, to one address.
    Dnat {
        /// The new address.
        address: IpAddr,
        /// The new port; `None` keeps it.
        port: Option<u16>,
    },
    /// The address of the outgoing interface as source, without a range of ports.
    Masquerade {
        /// `--random-fully`.
        is_fully_random: bool,
    },
    /// Any other target, or one of these with an option not modelled; without a name, a whole rule
    /// that could not be read.
    Other(Extension),
}

impl Target {
    /// The address that receivers see instead of the client's, if it is a single one.
    pub fn new_source(&self) -> Option<IpAddr> {
        let Self::Other(extension) = self else {
            return None;
        };
        let options = extension.options.strip_prefix("--to-source ")?;
        let to = options.split(' ').next().unwrap_or(options);
        let port = to.rsplit_once(':').map(|(address, _)| address);
        let parsed = to.parse().ok();
        parsed.or_else(|| port?.trim_matches(['[', ']']).parse().ok())
    }

    /// The chain it leads to, if any.
    pub fn chain(&self) -> Option<&str> {
        match self {
            Self::Jump(chain) | Self::Goto(chain) => Some(chain),
            _ => None,
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
            Self::Mark(Bits { value, mask }) => {
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
