//! Combines flags with the Node object and the addresses of the node into the render options of a
//! sync.
//!
//! Flags are fixed at the start, the Node object and the addresses may change at any time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::model::{Node, Topology};
use crate::net::{IpFamily, IpNet};
use crate::render::{LocalDetector, NodePortAddresses, Options};

/// `--detect-local-mode` with its parameters. KEP: kep.k8s.io/2450
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalMode {
    /// `ClusterCIDR`: traffic from the first of these networks in the IP family is local.
    ClusterCidr(Vec<IpNet>),
    /// `NodeCIDR`: traffic from the first of the Node's `podCIDRs` in the IP family is local.
    NodeCidr,
    /// Other modes: traffic that this match recognizes is local, whatever the Node object says.
    Fixed(LocalDetector),
}

/// Item of `--nodeport-addresses`: addresses that accept NodePort traffic. The configuration has
/// replaced `localhost` and `all` by one network of each family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePortAddressItem {
    /// Addresses of the node within this network.
    Network(IpNet),
    /// `primary`: the address of the Node in each family, or `--bind-address` in its place.
    Primary,
}

/// Settings of one IP family that are fixed for the life of the process. The render options of each
/// sync follow from them, the Node object and the addresses of the interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderSettings {
    /// Render options that never change. [`RenderSettings::options`] sets the others, except the
    /// counters, which the [`Syncer`](super::Syncer) creates and sets.
    pub fixed: Options,
    /// Detection of traffic from Pods of this node.
    pub local_mode: LocalMode,
    /// Addresses that accept NodePort traffic; all without an item.
    pub node_port_addresses: Vec<NodePortAddressItem>,
    /// `--bind-address`, which replaces the address of the Node in the family of the flag.
    pub bind_address: Option<IpAddr>,
}

impl RenderSettings {
    /// Returns the render options of the next sync, with the Node object and the addresses of the
    /// interfaces of this node.
    pub fn options(&self, node: Option<&Node>, node_addresses: &[IpAddr]) -> Options {
        let configured_addresses = self.configured_addresses(node);
        Options {
            local_traffic: self.local_traffic(node),
            node_port_addresses: configured_addresses.addresses(node_addresses),
            node_ip: self.node_ip(node),
            topology: Topology::of(node),
            has_localhost_node_ports: self.needs_route_localnet(),
            ..self.fixed.clone()
        }
    }

    /// Reports whether 127.0.0.0/8 accepts NodePort traffic, which needs the sysctl
    /// `route_localnet`. If not, the sysctl must stay unset: the rule that keeps other hosts from
    /// services on localhost is not written in this case.
    ///
    /// Differs from upstream: false with `primary` and no IPv4 network, even while all IPv4
    /// addresses of the interfaces accept NodePort traffic because only IPv6 has a primary address.
    pub fn needs_route_localnet(&self) -> bool {
        let is_wanted = self.fixed.has_localhost_node_ports;
        is_wanted
            && self.fixed.family == IpFamily::V4
            && match self.networks().as_slice() {
                [] => !self.has_primary(),
                networks => networks.iter().any(includes_loopback),
            }
    }

    /// Reports whether [`RenderSettings::options`] needs the addresses of the node.
    pub fn needs_node_addresses(&self) -> bool {
        let networks = self.networks();
        let is_limited = self.has_primary() || !networks.is_empty();
        is_limited && !networks.iter().any(is_all)
    }

    /// Returns the networks of the family among the items.
    fn networks(&self) -> Vec<IpNet> {
        let items = self.node_port_addresses.iter();
        let networks = items.filter_map(|item| match item {
            NodePortAddressItem::Network(network) => Some(*network),
            NodePortAddressItem::Primary => None,
        });
        networks
            .filter(|network| IpFamily::of_cidr(*network) == self.fixed.family)
            .collect()
    }

    fn has_primary(&self) -> bool {
        self.node_port_addresses
            .contains(&NodePortAddressItem::Primary)
    }

    /// Returns the detection of traffic from Pods of this node.
    ///
    /// Differs from upstream: if `podCIDRs` of the Node change, the next sync uses them; kube-proxy
    /// exits. If the Node has none, no traffic is local.
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
            LocalMode::Fixed(detector) => detector.clone(),
        }
    }

    /// Returns the addresses that accept NodePort traffic of the family: all, if no item is of this
    /// family.
    ///
    /// Upstream: cmd/kube-proxy/app/server.go, `expandNodePortAddressKeywords` (v1.37)
    ///
    /// Differs from upstream: while neither IP family has a primary address, `primary` means none
    /// instead of all.
    fn configured_addresses(&self, node: Option<&Node>) -> ConfiguredAddresses {
        let family = self.fixed.family;
        let mut networks = self.networks();
        if self.has_primary() {
            let primary = |family| self.primary(family, node).filter(|ip| !ip.is_loopback());
            networks.extend(primary(family).map(IpNet::from));
            if networks.is_empty() && primary(family.other()).is_none() {
                return ConfiguredAddresses::Within(networks);
            }
        }
        if networks.is_empty() || networks.iter().any(is_all) {
            ConfiguredAddresses::Everywhere
        } else {
            ConfiguredAddresses::Within(networks)
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

/// Addresses for NodePorts of one IP family, before networks are resolved to addresses of the node.
enum ConfiguredAddresses {
    /// All addresses of the node.
    Everywhere,
    /// Addresses of the node within these networks.
    Within(Vec<IpNet>),
}

impl ConfiguredAddresses {
    fn addresses(&self, node_addresses: &[IpAddr]) -> NodePortAddresses {
        let Self::Within(cidrs) = self else {
            return NodePortAddresses::All;
        };
        let is_within = |ip: &&IpAddr| cidrs.iter().any(|cidr| cidr.contains(*ip));
        let mut addresses: Vec<IpAddr> = node_addresses.iter().filter(is_within).copied().collect();
        addresses.sort_unstable();
        addresses.dedup();
        NodePortAddresses::Only(addresses)
    }
}

/// Reports whether a network has all addresses of its family.
fn is_all(network: &IpNet) -> bool {
    network.prefix_len() == 0
}

/// Upstream: pkg/proxy/util/nodeport_addresses.go, `ContainsIPv4Loopback` (v1.37)
fn includes_loopback(network: &IpNet) -> bool {
    let loopback = IpAddr::from(Ipv4Addr::new(127, 0, 0, 0));
    network.network().is_loopback() || network.contains(&loopback)
}
