//! Inputs of rendering besides the Services: options, and the settings that they follow from.
//!
//! `config` makes the settings of flags, which are fixed at the start. The Node object and the
//! addresses of the node may change at any time: with these, the settings make the options of a
//! sync. An option that changes neither rules nor payloads is not among them.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::model::{ExternalIps, Node, Topology};
use crate::net::{IpFamily, IpNet};
use crate::rules::{Backend, Table};
use crate::ruleset::{DispatchChain, DispatchForm};

/// Number of endpoints, of all Services together, above which jumps to `KUBE-SEP` chains and rules
/// in these have no comments: comments would be 40 % of the text, and of the memory of the legacy
/// backend.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `largeClusterEndpointsThreshold` (v1.37)
pub const LARGE_CLUSTER_ENDPOINTS: usize = 1000;

/// Options and node facts that shape the rules of all Services of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// IP family of the rules: selects `iptables-restore` or `ip6tables-restore`.
    pub family: IpFamily,
    /// Kind of the iptables binaries. They accept the same rules, at different cost.
    pub backend: Backend,
    /// Mark of packets to masquerade, and the cluster IP traffic that gets it.
    pub masquerade: Masquerade,
    /// Match for local Pod traffic.
    pub local_traffic: LocalDetector,
    /// Addresses of this node that accept NodePort traffic.
    pub node_port_addresses: NodePortAddresses,
    /// NodePorts on 127.0.0.1 are accepted, for IPv4 only. Requires `route_localnet`, and the rule
    /// that keeps other hosts from reaching localhost through it. Otherwise the jump to
    /// `KUBE-NODEPORTS` excludes loopback addresses.
    pub has_localhost_node_ports: bool,
    /// Policy for external IPs: destinations of rules, or ignored.
    pub external_ips: ExternalIps,
    /// Packets in the conntrack state INVALID are dropped: forwarded without NAT they would make
    /// the peer reset a good connection. False if `nf_conntrack_tcp_be_liberal` is set, which is
    /// read once, when a process starts.
    ///
    /// Upstream: pkg/proxy/iptables/proxier.go, `NewProxier` (v1.37), which also reads it once
    pub drops_invalid_packets: bool,
    /// nfacct counters that exist in the kernel, so that rules may name them.
    pub counters: BTreeSet<Counter>,
    /// This node's own address in this family. If a load balancer's source ranges contain it,
    /// packets from this node to the load balancer's address are admitted even if they have that
    /// address as their source.
    pub node_ip: IpAddr,
    /// [`LARGE_CLUSTER_ENDPOINTS`], or fewer in tests.
    pub large_cluster_endpoints: usize,
    /// Number of rules above which a dispatch chain is a tree.
    pub tree_thresholds: TreeThresholds,
    /// Part of the cluster that this node is in, which hints of endpoints are compared with.
    pub topology: Topology,
}

impl Options {
    /// Returns the options of a kube-proxy without flags, on a node with unknown addresses.
    pub fn defaults(family: IpFamily) -> Self {
        let node_ip = match family {
            IpFamily::V4 => Ipv4Addr::LOCALHOST.into(),
            IpFamily::V6 => Ipv6Addr::LOCALHOST.into(),
        };
        Self {
            family,
            backend: Backend::Legacy,
            masquerade: Masquerade {
                bit: 14,
                is_for_all: false,
                is_random_fully: true,
            },
            local_traffic: LocalDetector::Absent,
            node_port_addresses: NodePortAddresses::All,
            has_localhost_node_ports: family == IpFamily::V4,
            external_ips: ExternalIps::Served,
            drops_invalid_packets: true,
            counters: BTreeSet::new(),
            node_ip,
            large_cluster_endpoints: LARGE_CLUSTER_ENDPOINTS,
            tree_thresholds: TreeThresholds::FLAT,
            topology: Topology::default(),
        }
    }

    /// Reports whether NodePorts on 127.0.0.0/8 are accepted. Never on IPv6, which has no
    /// `route_localnet`.
    pub(super) fn accepts_localhost_node_ports(&self) -> bool {
        self.family == IpFamily::V4 && self.has_localhost_node_ports
    }

    /// Reports whether NodePorts on 127.0.0.0/8 have a rule of their own, for its counter.
    pub(super) fn counts_localhost_node_ports(&self) -> bool {
        self.accepts_localhost_node_ports() && self.counters.contains(&Counter::LocalhostNodePorts)
    }
}

/// Mark for masquerading, and the traffic to cluster IPs that gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Masquerade {
    /// Bit of the mark, 0 to 31.
    pub bit: u8,
    /// All traffic to cluster IPs gets the mark: `--masquerade-all`. Otherwise the traffic that the
    /// [`LocalDetector`] does not recognize as local Pod traffic; none without a detector.
    pub is_for_all: bool,
    /// `--random-fully`, which avoids port clashes. False only to compare with rules that lack it.
    pub is_random_fully: bool,
}

impl Masquerade {
    /// Returns the mark as rules have it: `0x` and eight hexadecimal digits.
    pub fn mark(self) -> String {
        format!(
            "{:#010x}",
            1_u32.checked_shl(u32::from(self.bit)).unwrap_or_default()
        )
    }
}

/// Match that recognizes *local Pod traffic*: packets from Pods of this node. With the network of
/// all Pods (`--detect-local-mode=ClusterCIDR`) it also recognizes packets from Pods of other
/// nodes.
///
/// Packets from this node itself are not local Pod traffic; rules match them with
/// `--src-type LOCAL`.
///
/// KEP: kep.k8s.io/2450
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalDetector {
    /// Source address in a network.
    Cidr(IpNet),
    /// Input interface is this bridge.
    Bridge(Arc<str>),
    /// Name of the input interface begins with this prefix.
    InterfacePrefix(Arc<str>),
    /// No match: no network of this family is configured.
    Absent,
}

impl LocalDetector {
    /// Reports whether packets of a Pod with this address are not recognized. Other matches than
    /// those of addresses say nothing of it.
    pub(super) fn misses(&self, pod: IpAddr) -> bool {
        matches!(self, Self::Cidr(network) if !network.contains(&pod))
    }
}

/// Writes the match as rules have it; nothing if the detector is absent.
impl fmt::Display for LocalDetector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cidr(net) => write!(f, "-s {net}"),
            Self::Bridge(name) => write!(f, "-i {name}"),
            Self::InterfacePrefix(prefix) => write!(f, "-i {prefix}+"),
            Self::Absent => Ok(()),
        }
    }
}

/// Addresses of this node that accept NodePort traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// All addresses of this node.
    All,
    /// These addresses of this node, sorted.
    Only(Vec<IpAddr>),
}

/// Selection of the Service rules that have comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Comments {
    /// Every rule that has one upstream.
    #[default]
    Everywhere,
    /// All of these except jumps to `KUBE-SEP` chains and the rules in these: large-cluster mode.
    NotOnEndpoints,
}

impl Comments {
    /// Returns the selection for this number of endpoints of all Services together.
    pub(crate) const fn for_cluster(endpoints: usize, options: &Options) -> Self {
        if endpoints > options.large_cluster_endpoints {
            Self::NotOnEndpoints
        } else {
            Self::Everywhere
        }
    }
}

/// Extent of a partial restore: the chains that it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PartialRestore {
    /// Chains whose rules differ from those in the kernel, most of them whole; on nft, of a tree
    /// chain only the new rules, if nothing else differs.
    #[default]
    ChangedChains,
    /// As [`Self::ChangedChains`], but no rule is inserted into a chain of a tree. `-I` with a rule
    /// number fails if another program has emptied the chain.
    WholeTreeChains,
    /// All chains of a changed Service, and every fixed and dispatch chain: upstream's extent.
    Kep3453,
}

/// Numbers of rules above which a dispatch chain is a tree: `--service-dispatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeThresholds {
    /// Threshold in the nat table; `None`: no tree.
    pub nat: Option<u64>,
    /// Threshold in the filter table; `None`: no tree. It is higher than in nat: a kube-proxy that
    /// is installed again takes tree chains for unknown Service chains and deletes them, but in nat
    /// only, so that those of the filter table stay until an administrator removes them.
    pub filter: Option<u64>,
}

impl TreeThresholds {
    /// All rules are in the dispatch chains themselves, as upstream.
    pub const FLAT: Self = Self {
        nat: None,
        filter: None,
    };

    /// In nat a tree for more rules than one leaf has. In filter as [`Self::AUTO`], for the reason
    /// given at [`Self::filter`].
    pub const TREE: Self = Self {
        nat: Some(12),
        filter: Some(1_000),
    };

    /// A tree where it saves a noticeable part of a `connect()`, which takes 10 us in a tree. On
    /// nft a packet takes 10 ns for a rule, and so 3 us for 300 rules of a flat chain.
    ///
    /// Measured: benches/datapath, 1,000 and 10,000 Services
    pub const AUTO: Self = Self {
        nat: Some(300),
        filter: Some(1_000),
    };

    /// Returns the form of a dispatch chain with this number of rules. One that is a tree already
    /// stays so while it has more than half of the threshold.
    pub(crate) fn form(
        self,
        chain: DispatchChain,
        rule_count: u64,
        before: DispatchForm,
    ) -> DispatchForm {
        let threshold = match chain.table() {
            Table::Nat => self.nat,
            Table::Filter | Table::Mangle => self.filter,
        };
        let lowest = match before {
            DispatchForm::Flat => threshold,
            DispatchForm::Tree => threshold.map(|threshold| threshold / 2),
        };
        if lowest.is_some_and(|lowest| rule_count > lowest) {
            DispatchForm::Tree
        } else {
            DispatchForm::Flat
        }
    }
}

/// As upstream, for callers without a configuration; `--service-dispatch` has another default.
impl Default for TreeThresholds {
    fn default() -> Self {
        Self::FLAT
    }
}

/// nfacct counter of the kernel that rules add to.
///
/// A restore fails as a whole if one rule names a counter that does not exist, so the existing
/// counters are read before each full restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Packets dropped in the conntrack state INVALID.
    InvalidDropped,
    /// Packets to NodePorts on 127.0.0.0/8: zero if no client depends on these.
    LocalhostNodePorts,
}

impl Counter {
    /// All counters, in the order in which they are created.
    pub const ALL: [Self; 2] = [Self::InvalidDropped, Self::LocalhostNodePorts];

    /// Returns the counter's name in the kernel. Both families share it, and kube-proxy has the
    /// same.
    ///
    /// Upstream: pkg/proxy/metrics/metrics.go, `IPTablesCTStateInvalidDroppedNFAcctCounter` and
    /// `LocalhostNodePortAcceptedNFAcctCounter` (v1.37)
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidDropped => "ct_state_invalid_dropped_pkts",
            Self::LocalhostNodePorts => "localhost_nps_accepted_pkts",
        }
    }

    /// Returns the match that adds to the counter.
    pub(super) const fn match_text(self) -> &'static str {
        match self {
            Self::InvalidDropped => "-m nfacct --nfacct-name ct_state_invalid_dropped_pkts",
            Self::LocalhostNodePorts => "-m nfacct --nfacct-name localhost_nps_accepted_pkts",
        }
    }
}

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
    /// counters, which the syncer creates and sets.
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
        Options {
            local_traffic: self.local_traffic(node),
            node_port_addresses: self.addresses(node, node_addresses),
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
    /// family, or those of the node in the networks of the items.
    ///
    /// Upstream: cmd/kube-proxy/app/server.go, `expandNodePortAddressKeywords` (v1.37)
    ///
    /// Differs from upstream: while neither IP family has a primary address, `primary` means none
    /// instead of all.
    fn addresses(&self, node: Option<&Node>, node_addresses: &[IpAddr]) -> NodePortAddresses {
        let family = self.fixed.family;
        let mut networks = self.networks();
        if self.has_primary() {
            let primary = |family| self.primary(family, node).filter(|ip| !ip.is_loopback());
            networks.extend(primary(family).map(IpNet::from));
            if networks.is_empty() && primary(family.other()).is_none() {
                return NodePortAddresses::Only(Vec::new());
            }
        }
        if networks.is_empty() || networks.iter().any(is_all) {
            return NodePortAddresses::All;
        }
        let is_within = |ip: &&IpAddr| networks.iter().any(|network| network.contains(*ip));
        let mut addresses: Vec<IpAddr> = node_addresses.iter().filter(is_within).copied().collect();
        addresses.sort_unstable();
        addresses.dedup();
        NodePortAddresses::Only(addresses)
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

/// Reports whether a network has all addresses of its family.
fn is_all(network: &IpNet) -> bool {
    network.prefix_len() == 0
}

/// Upstream: pkg/proxy/util/nodeport_addresses.go, `ContainsIPv4Loopback` (v1.37)
fn includes_loopback(network: &IpNet) -> bool {
    let loopback = IpAddr::from(Ipv4Addr::new(127, 0, 0, 0));
    network.network().is_loopback() || network.contains(&loopback)
}
