//! Transport protocols, in the spellings of Kubernetes and iptables, and port numbers.

use std::fmt;
use std::num::NonZeroU16;

/// Transport port, 1 to 65535. "No port" is `None`, never zero.
pub type Port = NonZeroU16;

/// Protocol of a Service port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// Default of the API.
    Tcp,
    /// Its conntrack entries outlive their endpoints.
    Udp,
    /// Needs the `xt_sctp` match in the kernel.
    Sctp,
}

impl Protocol {
    /// Returns the spelling of iptables, for `-p` and `-m`, which chain names hash.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }

    /// Parses the spelling of the API. Returns `None` for any other text: a rule with an unknown
    /// protocol would make `iptables-restore` reject the whole payload.
    pub fn from_api(text: &str) -> Option<Self> {
        match text {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }

    /// Parses the spelling of iptables and `/etc/protocols`.
    pub fn from_iptables(text: &str) -> Option<Self> {
        match text {
            "tcp" | "6" => Some(Self::Tcp),
            "udp" | "17" => Some(Self::Udp),
            "sctp" | "132" => Some(Self::Sctp),
            _ => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
