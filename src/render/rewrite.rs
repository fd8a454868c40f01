//! When the rules that are there cannot be changed bit by bit.
//!
//! Apart from [`partial`](super::partial()), which looks at Services only, because whoever restores
//! has to know before; the daemon and the commands that tell what it would do ask the same
//! function.

use super::options::Options;
use super::service::Setting;

/// Why all rules have to be written anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewrite {
    /// Hints mean something else for every Service.
    Zone,
    /// Traffic from this node's pods is told apart in another way.
    LocalTraffic,
    /// This node has another address.
    NodeAddress,
    /// Something else that shapes the rules of all Services.
    Options,
}

impl Rewrite {
    /// Whether Services' rules written with `old` are wrong with `new`, and why. The addresses of
    /// NodePorts do not count: they make one rule each in a chain that partial restores look after.
    pub fn needed(old: Setting<'_>, new: Setting<'_>) -> Option<Self> {
        let (before, after) = (old.options, new.options);
        if before.local_traffic != after.local_traffic {
            return Some(Self::LocalTraffic);
        }
        if before.node_ip != after.node_ip {
            return Some(Self::NodeAddress);
        }
        let alike = Options {
            node_port_addresses: after.node_port_addresses.clone(),
            ..before.clone()
        };
        if alike != *after {
            return Some(Self::Options);
        }
        (old.zone != new.zone).then_some(Self::Zone)
    }

    /// In words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Zone => "zone changed",
            Self::LocalTraffic => "pod networks changed",
            Self::NodeAddress => "node address changed",
            Self::Options => "options changed",
        }
    }
}
