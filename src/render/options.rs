//! What the rules depend on besides the cluster: flags and facts about this node.
//!
//! Apart so that the renderer's view of the configuration is small, complete and printable; who
//! resolves it from flags is none of its concern.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::counter::{Counter, Counters};
use crate::model::ExternalIps;
use crate::net::{IpFamily, IpNet};
use crate::rules::Backend;

/// Above this many endpoints, of all Services together, the rules written for endpoints carry no
/// comments: they are four tenths of the text there, and the memory of the legacy backend.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `largeClusterEndpointsThreshold` (v1.36)
pub const LARGE_CLUSTER_ENDPOINTS: usize = 1000;

/// Everything that is the same for all Services of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whose rules: `iptables-restore` or `ip6tables-restore` reads them.
    pub family: IpFamily,
    /// Which kind of program that is.
    pub backend: Backend,
    /// How masqueraded packets are marked, and what is masqueraded.
    pub masquerade: Masquerade,
    /// How traffic from pods of this node is told apart.
    pub local_traffic: LocalDetector,
    /// The addresses that NodePorts answer on.
    pub node_port_addresses: NodePortAddresses,
    /// Whether NodePorts answer on 127.0.0.1, too.
    pub localhost_node_ports: LocalhostNodePorts,
    /// Whether external IPs are destinations.
    pub external_ips: ExternalIps,
    /// Whether packets that conntrack calls invalid are dropped.
    pub invalid_packets: InvalidPackets,
    /// Which counters of the kernel rules may name.
    pub counters: Counters,
    /// This node's own address in this family: a load balancer that admits it admits traffic from
    /// the node to itself.
    pub node_ip: IpAddr,
    /// See [`LARGE_CLUSTER_ENDPOINTS`]; smaller in tests.
    pub large_cluster_endpoints: usize,
}

impl Options {
    /// What kube-proxy does without flags, on a node of which nothing is known.
    pub fn defaults(family: IpFamily) -> Self {
        let (node_ip, localhost_node_ports) = match family {
            IpFamily::V4 => (Ipv4Addr::LOCALHOST.into(), LocalhostNodePorts::Allowed),
            IpFamily::V6 => (Ipv6Addr::LOCALHOST.into(), LocalhostNodePorts::Refused),
        };
        Self {
            family,
            backend: Backend::Legacy,
            masquerade: Masquerade {
                bit: 14,
                policy: MasqueradePolicy::OffCluster,
                is_random_fully: true,
            },
            local_traffic: LocalDetector::Absent,
            node_port_addresses: NodePortAddresses::All,
            localhost_node_ports,
            external_ips: ExternalIps::Served,
            invalid_packets: InvalidPackets::Dropped,
            counters: Counters::NONE,
            node_ip,
            large_cluster_endpoints: LARGE_CLUSTER_ENDPOINTS,
        }
    }

    /// Whether 127.0.0.0/8 has a NodePort rule of its own, for its counter.
    pub(super) fn counts_localhost_node_ports(&self) -> bool {
        self.family == IpFamily::V4
            && self.localhost_node_ports == LocalhostNodePorts::Allowed
            && self.counters.has(Counter::LocalhostNodePorts)
    }
}

/// The firewall mark, and which traffic to cluster IPs gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Masquerade {
    /// The bit of the mark, 0 to 31.
    pub bit: u8,
    /// Which traffic.
    pub policy: MasqueradePolicy,
    /// The program knows `--random-fully` (1.6.2 and later), which avoids port clashes.
    pub is_random_fully: bool,
}

impl Masquerade {
    /// The mark's text: always eight digits.
    pub fn mark(self) -> String {
        format!(
            "{:#010x}",
            1_u32.checked_shl(u32::from(self.bit)).unwrap_or_default()
        )
    }
}

/// Which traffic to cluster IPs is masqueraded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MasqueradePolicy {
    /// What is known to come from outside the pod network.
    #[default]
    OffCluster,
    /// Everything: `--masquerade-all`.
    All,
}

/// How packets from this node's pods are recognized. KEP: kep.k8s.io/2450
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalDetector {
    /// By source address.
    Cidr(IpNet),
    /// By the bridge they come in through.
    Bridge(Arc<str>),
    /// By the beginning of the name of the interface they come in through.
    InterfacePrefix(Arc<str>),
    /// Not at all: no network of this family is configured.
    Absent,
}

/// The addresses that NodePorts answer on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// All of this node's.
    All,
    /// These of this node's, sorted.
    Only(Vec<IpAddr>),
}

/// Whether NodePorts answer on loopback addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalhostNodePorts {
    /// Yes: IPv4 only, needs `route_localnet`, and the rule that keeps neighbors from abusing it.
    Allowed,
    /// No.
    Refused,
}

/// What becomes of packets that conntrack cannot place. Found out once, when a process starts.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `NewProxier` (v1.36), which does the same
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidPackets {
    /// Dropped: forwarded unNATed they would make the peer reset a good connection.
    Dropped,
    /// Left alone, because conntrack was told to be liberal.
    Forwarded,
}

/// Whether rules written for endpoints carry comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comments {
    /// Every rule that upstream comments.
    Everywhere,
    /// None on rules that pick or implement an endpoint: large-cluster mode.
    NotOnEndpoints,
}

impl Comments {
    /// The mode for a cluster of `endpoints`, all Services together.
    pub const fn for_cluster(endpoints: usize, options: &Options) -> Self {
        if endpoints > options.large_cluster_endpoints {
            Self::NotOnEndpoints
        } else {
            Self::Everywhere
        }
    }
}

/// What a partial restore names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PartialRestore {
    /// Only chains whose rules differ from the kernel's.
    #[default]
    ChangedChains,
    /// All chains of a changed Service, and every fixed and dispatch chain each time.
    Kep3453,
}
