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
        let answering = self.answering(node);
        let mut options = Options {
            local_traffic: self.local_traffic(node),
            node_port_addresses: answering.addresses(machine),
            node_ip: self.node_ip(node),
            ..self.fixed.clone()
        };
        if !self.needs_route_localnet() {
            options.localhost_node_ports = LocalhostNodePorts::Refused;
        }
        options
    }

    /// Whether NodePorts answer on 127.0.0.0/8, which the kernel has to be told. It must not be
    /// told so otherwise: the rule that guards such packets is only there if they are wanted.
    ///
    /// Differs from upstream: with `primary` they are never wanted, not even on a node without any
    /// IPv4 address, whose NodePorts answer on all of them.
    pub fn needs_route_localnet(&self) -> bool {
        let is_wanted = self.fixed.localhost_node_ports == LocalhostNodePorts::Allowed;
        is_wanted
            && self.fixed.family == IpFamily::V4
            && match &self.node_ports {
                NodePortSource::Primary => false,
                NodePortSource::All | NodePortSource::Within(_) => {
                    self.answering(None).includes_loopback()
                }
            }
    }

    /// Whether the machine's addresses matter at all.
    pub fn needs_machine_addresses(&self) -> bool {
        !matches!(self.node_ports, NodePortSource::All)
    }

    /// Differs from upstream, where the process ends when the Node's networks are others than at
    /// its start: they are taken over with the next sync, and until there are any, nothing is
    /// local.
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

    /// Where NodePorts of this family answer. Networks of the other family only mean that this one
    /// was not thought of.
    ///
    /// Differs from upstream: while the Node has no address at all, `primary` means none and not
    /// all. A restriction that is not understood yet is not lifted.
    fn answering(&self, node: Option<&Node>) -> Answering {
        let family = self.fixed.family;
        let cidrs: Vec<IpNet> = match &self.node_ports {
            NodePortSource::All => Vec::new(),
            NodePortSource::Within(cidrs) => cidrs
                .iter()
                .copied()
                .filter(|cidr| IpFamily::of_cidr(*cidr) == family)
                .collect(),
            NodePortSource::Primary => {
                let primary = |family| self.primary(family, node).filter(|ip| !ip.is_loopback());
                match (primary(family), primary(family.other())) {
                    (Some(ip), _) => vec![IpNet::from(ip)],
                    (None, Some(_)) => Vec::new(),
                    (None, None) => return Answering::Within(Vec::new()),
                }
            }
        };
        if cidrs.is_empty() || cidrs.iter().any(|cidr| cidr.prefix_len() == 0) {
            Answering::Everywhere
        } else {
            Answering::Within(cidrs)
        }
    }

    fn primary(&self, family: IpFamily, node: Option<&Node>) -> Option<IpAddr> {
        let of_family = |ip: &IpAddr| IpFamily::of(*ip) == family;
        let bound = self
            .bind_address
            .filter(|ip| of_family(ip) && !ip.is_unspecified());
        bound.or_else(|| node?.addresses.iter().copied().find(of_family))
    }

    fn node_ip(&self, node: Option<&Node>) -> IpAddr {
        self.primary(self.fixed.family, node)
            .unwrap_or(match self.fixed.family {
                IpFamily::V4 => Ipv4Addr::LOCALHOST.into(),
                IpFamily::V6 => Ipv6Addr::LOCALHOST.into(),
            })
    }
}

/// Where NodePorts of one family answer.
enum Answering {
    /// On every address of this machine.
    Everywhere,
    /// On the addresses of this machine that are in these networks.
    Within(Vec<IpNet>),
}

impl Answering {
    fn addresses(&self, machine: &[IpAddr]) -> NodePortAddresses {
        let Self::Within(cidrs) = self else {
            return NodePortAddresses::All;
        };
        let is_within = |ip: &&IpAddr| cidrs.iter().any(|cidr| cidr.contains(*ip));
        let mut addresses: Vec<IpAddr> = machine.iter().filter(is_within).copied().collect();
        addresses.sort_unstable();
        addresses.dedup();
        NodePortAddresses::Only(addresses)
    }

    /// Upstream: pkg/proxy/util/nodeport_addresses.go, `ContainsIPv4Loopback` (v1.36)
    fn includes_loopback(&self) -> bool {
        let loopback = IpAddr::from(Ipv4Addr::new(127, 0, 0, 0));
        let has_it = |cidr: &IpNet| cidr.network().is_loopback() || cidr.contains(&loopback);
        match self {
            Self::Everywhere => true,
            Self::Within(cidrs) => cidrs.iter().any(has_it),
        }
    }
}
