//! What rules depend on besides Services, found out anew for each sync: flags, this Node, and the
//! addresses of this machine.
//!
//! Apart, and pure, because some of it is fixed at start and some of it may change any time, and
//! the renderer should not have to care which.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::model::Node;
use crate::net::{IpFamily, IpNet};
use crate::render::{LocalDetector, LocalhostNodePorts, NodePortAddresses, Options};

/// `--detect-local-mode` with what it needs. KEP: kep.k8s.io/2450
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalMode {
    /// The first of these that is of the family.
    ClusterCidr(Vec<IpNet>),
    /// The first of the Node's `podCIDRs` that is of the family.
    NodeCidr,
    /// A bridge.
    BridgeInterface(Arc<str>),
    /// The beginning of interface names.
    InterfaceNamePrefix(Arc<str>),
}

/// `--nodeport-addresses`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodePortSource {
    /// Every address of this machine.
    All,
    /// The addresses of this machine within these networks.
    Within(Vec<IpNet>),
    /// The Node's primary addresses.
    Primary,
}

/// What is fixed for the life of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// Everything that never changes; the rest is filled in by [`Surroundings::options`], and the
    /// counters by a [`Syncer`](super::Syncer), which makes them.
    pub fixed: Options,
    /// How traffic from this node's pods is told apart.
    pub local_mode: LocalMode,
    /// Which addresses NodePorts answer on.
    pub node_ports: NodePortSource,
    /// `--bind-address`, which takes the place of the Node's address of its family.
    pub bind_address: Option<IpAddr>,
}

impl Surroundings {
    /// The renderer's options right now.
    pub fn options(&self, node: Option<&Node>, machine: &[IpAddr]) -> Options {
        let within = self.node_port_cidrs(node);
        let mut options = Options {
            local_traffic: self.local_traffic(node),
            node_port_addresses: addresses_within(&within, machine),
            node_ip: self.node_ip(node),
            ..self.fixed.clone()
        };
        if !answers_on_loopback(&within, self.fixed.family) {
            options.localhost_node_ports = LocalhostNodePorts::Refused;
        }
        options
    }

    /// Whether the machine's addresses matter at all.
    pub fn needs_machine_addresses(&self) -> bool {
        !matches!(self.node_ports, NodePortSource::All)
    }

    fn local_traffic(&self, node: Option<&Node>) -> LocalDetector {
        let family = self.fixed.family;
        let first = |cidrs: &[IpNet]| {
            let of_family = cidrs
                .iter()
                .find(|cidr| IpFamily::of_cidr(**cidr) == family);
            of_family.map_or(LocalDetector::Absent, |cidr| LocalDetector::Cidr(*cidr))
        };
        match &self.local_mode {
            LocalMode::ClusterCidr(cidrs) => first(cidrs),
            LocalMode::NodeCidr => first(node.map_or(&[], |node| &node.pod_cidrs)),
            LocalMode::BridgeInterface(name) => LocalDetector::Bridge(Arc::clone(name)),
            LocalMode::InterfaceNamePrefix(prefix) => {
                LocalDetector::InterfacePrefix(Arc::clone(prefix))
            }
        }
    }

    /// The networks of this family whose addresses NodePorts answer on; none means all. Networks
    /// of the other family only mean that this one was not thought of.
    fn node_port_cidrs(&self, node: Option<&Node>) -> Vec<IpNet> {
        let family = self.fixed.family;
        let cidrs: Vec<IpNet> = match &self.node_ports {
            NodePortSource::All => Vec::new(),
            NodePortSource::Within(cidrs) => cidrs
                .iter()
                .copied()
                .filter(|cidr| IpFamily::of_cidr(*cidr) == family)
                .collect(),
            NodePortSource::Primary => self.primary(node).map(IpNet::from).into_iter().collect(),
        };
        if cidrs.iter().any(|cidr| cidr.prefix_len() == 0) {
            Vec::new()
        } else {
            cidrs
        }
    }

    fn primary(&self, node: Option<&Node>) -> Option<IpAddr> {
        let family = self.fixed.family;
        let of_family = |ip: &IpAddr| IpFamily::of(*ip) == family;
        let bound = self
            .bind_address
            .filter(|ip| of_family(ip) && !ip.is_unspecified());
        bound.or_else(|| node?.addresses.iter().copied().find(of_family))
    }

    fn node_ip(&self, node: Option<&Node>) -> IpAddr {
        self.primary(node).unwrap_or(match self.fixed.family {
            IpFamily::V4 => Ipv4Addr::LOCALHOST.into(),
            IpFamily::V6 => Ipv6Addr::LOCALHOST.into(),
        })
    }
}

fn addresses_within(cidrs: &[IpNet], machine: &[IpAddr]) -> NodePortAddresses {
    if cidrs.is_empty() {
        return NodePortAddresses::All;
    }
    let is_within = |ip: &&IpAddr| cidrs.iter().any(|cidr| cidr.contains(*ip));
    let mut addresses: Vec<IpAddr> = machine.iter().filter(is_within).copied().collect();
    addresses.sort_unstable();
    addresses.dedup();
    NodePortAddresses::Only(addresses)
}

/// Localhost NodePorts exist on IPv4 only, and only if 127.0.0.0/8 is among the addresses.
///
/// Upstream: pkg/proxy/util/nodeport_addresses.go, `ContainsIPv4Loopback` (v1.36)
fn answers_on_loopback(cidrs: &[IpNet], family: IpFamily) -> bool {
    let loopback = IpAddr::from(Ipv4Addr::new(127, 0, 0, 0));
    let has_it = |cidr: &IpNet| cidr.network().is_loopback() || cidr.contains(&loopback);
    family == IpFamily::V4 && (cidrs.is_empty() || cidrs.iter().any(has_it))
}
