//! Transport protocols and their two spellings.
//!
//! Apart because Kubernetes writes them in capitals and iptables in small letters.

use std::fmt;

/// The protocols a Service port can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// The API's default.
    Tcp,
    /// The one whose conntrack entries outlive their endpoints.
    Udp,
    /// Needs the `xt_sctp` match in the kernel.
    Sctp,
}

impl Protocol {
    /// As iptables spells it, for `-p` and `-m`, and as chain names hash it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }

    /// As the API spells it. `None` for every other text: the API server accepts no other, and a
    /// rule with an unknown protocol would make `iptables-restore` refuse all of them.
    pub fn from_api(text: &str) -> Option<Self> {
        match text {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }

    /// As iptables and `/etc/protocols` spell it.
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
