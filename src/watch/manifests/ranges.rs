//! Ranges from which values are allocated that manifests do not set.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::net::{IpNet, PerFamily};

/// Ranges from which Services get the values that their manifests do not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManifestRanges {
    /// Cluster IPs.
    pub services: PerFamily<IpNet>,
    /// Node ports and health check node ports.
    pub node_ports: NodePortRange,
    /// Load balancer IPs; `None` if only reported ones are used, as by the daemon.
    pub load_balancers: Option<PerFamily<IpNet>>,
}

impl Default for ManifestRanges {
    /// Ranges of kubeadm, `10.96.0.0/12` and `30000-32767`; `fd00:10:96::/112` for IPv6.
    fn default() -> Self {
        let v6 = Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0);
        Self {
            services: PerFamily {
                v4: IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(10, 96, 0, 0)), 12),
                v6: IpNet::new_assert(IpAddr::V6(v6), 112),
            },
            node_ports: NodePortRange::DEFAULT,
            load_balancers: None,
        }
    }
}

/// Range of node ports, as in `30000-32767`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePortRange {
    /// Not 0.
    pub(super) first: u16,
    /// Not less than `first`.
    pub(super) last: u16,
}

impl NodePortRange {
    /// Default of the API server: 30000-32767.
    pub const DEFAULT: Self = Self {
        first: 30000,
        last: 32767,
    };
}

impl fmt::Display for NodePortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Error for a text that is not a [`NodePortRange`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a valid range of ports (example: 30000-32767)")]
pub struct NotAPortRange(String);

impl FromStr for NodePortRange {
    type Err = NotAPortRange;

    fn from_str(text: &str) -> Result<Self, NotAPortRange> {
        let ports = text.split_once('-').and_then(|(first, last)| {
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (0 < first && first <= last).then_some(Self { first, last })
        });
        ports.ok_or_else(|| NotAPortRange(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_node_ports_are_parsed() {
        for good in ["30000-32767", "1-65535", "80-80"] {
            assert_eq!(good.parse::<NodePortRange>().unwrap().to_string(), good);
        }
        for bad in ["", "1", "0-5", "5-4", "1-65536", "a-b", "-", "1-2-3"] {
            assert!(bad.parse::<NodePortRange>().is_err(), "{bad}");
        }
    }
}
