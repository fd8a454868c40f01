//! Names of the shared chains (dispatch chains, fixed chains and canaries) and of the chains that
//! only other proxies have, and the entry jumps to them.

use std::net::IpAddr;

use crate::net::{Port, Protocol};
use crate::rules::Table;

/// Dispatch chain of both tables: virtual IPs in nat, cluster IPs without endpoints in filter.
pub(crate) const KUBE_SERVICES: &str = "KUBE-SERVICES";

/// Dispatch chain of the filter table: external addresses without endpoints.
pub(crate) const KUBE_EXTERNAL_SERVICES: &str = "KUBE-EXTERNAL-SERVICES";

/// Dispatch chain of both tables: NodePorts in nat, health check node ports in filter.
pub(crate) const KUBE_NODEPORTS: &str = "KUBE-NODEPORTS";

/// Dispatch chain of the filter table: load balancer traffic from outside of the source ranges.
pub(crate) const KUBE_PROXY_FIREWALL: &str = "KUBE-PROXY-FIREWALL";

/// Fixed chain of the filter table: accepts forwarded Service traffic.
pub(crate) const KUBE_FORWARD: &str = "KUBE-FORWARD";

/// Fixed chain of the nat table: masquerades packets that have the mark.
pub(crate) const KUBE_POSTROUTING: &str = "KUBE-POSTROUTING";

/// Fixed chain of the nat table: sets the mark for masquerading.
pub(crate) const KUBE_MARK_MASQ: &str = "KUBE-MARK-MASQ";

/// Chain of the nat table that marks packets, which `KUBE-FIREWALL` then drops. Kubelet made it,
/// and proxies jumped to it until 1.25.
pub(crate) const KUBE_MARK_DROP: &str = "KUBE-MARK-DROP";

/// Chain of the filter table that kubelet owns. It has to exist for both families; the proxy has a
/// rule in it for IPv4 only.
pub(crate) const KUBE_FIREWALL: &str = "KUBE-FIREWALL";

/// Canary: an empty chain in the tables mangle, nat and filter. If it is missing, a program has
/// deleted the chains of the table. (`iptables -F` alone deletes rules and leaves chains.)
///
/// Upstream: pkg/util/iptables/iptables.go, `Monitor` (v1.37)
pub const KUBE_PROXY_CANARY: &str = "KUBE-PROXY-CANARY";

/// Dispatch and fixed chains of the filter table, without [`KUBE_FIREWALL`]. Every full restore
/// writes them.
pub(crate) const FILTER_CHAINS: [&str; 5] = [
    KUBE_SERVICES,
    KUBE_EXTERNAL_SERVICES,
    KUBE_FORWARD,
    KUBE_NODEPORTS,
    KUBE_PROXY_FIREWALL,
];

/// Dispatch and fixed chains of the nat table. Every full restore writes them.
pub(crate) const NAT_CHAINS: [&str; 4] = [
    KUBE_SERVICES,
    KUBE_NODEPORTS,
    KUBE_POSTROUTING,
    KUBE_MARK_MASQ,
];

/// Comment of the jumps to `KUBE-NODEPORTS`.
pub(crate) const NODE_PORTS_COMMENT: &str =
    "kubernetes service nodeports; NOTE: this must be the last rule in this chain";

/// Chains of the nat table that only a proxy in mode ipvs has.
///
/// Upstream: pkg/proxy/ipvs/proxier.go, `kubeLoadBalancerChain`, `kubeNodePortChain` (v1.37)
pub(crate) const IPVS_CHAINS: [&str; 2] = ["KUBE-LOAD-BALANCER", "KUBE-NODE-PORT"];

/// Chain of one table to which every Service may add rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum DispatchChain {
    /// `KUBE-SERVICES` of the filter table: cluster IPs without endpoints.
    FilterServices,
    /// `KUBE-EXTERNAL-SERVICES`: external addresses without endpoints.
    FilterExternalServices,
    /// `KUBE-NODEPORTS` of the filter table: health check node ports.
    FilterNodePorts,
    /// `KUBE-PROXY-FIREWALL`: load balancer traffic that no source range admits.
    FilterProxyFirewall,
    /// `KUBE-NODEPORTS` of the nat table: NodePorts.
    NatNodePorts,
    /// `KUBE-SERVICES` of the nat table: virtual IPs.
    NatServices,
}

impl DispatchChain {
    /// All dispatch chains, by table, each after those that it jumps to.
    pub(crate) const ALL: [Self; 6] = [
        Self::FilterServices,
        Self::FilterExternalServices,
        Self::FilterNodePorts,
        Self::FilterProxyFirewall,
        Self::NatNodePorts,
        Self::NatServices,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::FilterServices | Self::NatServices => KUBE_SERVICES,
            Self::FilterExternalServices => KUBE_EXTERNAL_SERVICES,
            Self::FilterNodePorts | Self::NatNodePorts => KUBE_NODEPORTS,
            Self::FilterProxyFirewall => KUBE_PROXY_FIREWALL,
        }
    }

    pub(crate) const fn table(self) -> Table {
        match self {
            Self::NatServices | Self::NatNodePorts => Table::Nat,
            _ => Table::Filter,
        }
    }

    /// Returns the dispatch chain of this name; `None` for any other chain.
    pub(crate) fn find(table: Table, name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|chain| (chain.table(), chain.name()) == (table, name))
    }
}

/// Destination that a rule of a dispatch chain matches. A tree arranges the rules by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum DispatchDestination {
    ClusterIp(IpAddr),
    /// One external IP or address of a load balancer.
    ExternalIp(IpAddr),
    /// One port on all addresses of the node.
    Port(Protocol, Port),
}

/// Entry jump: from a built-in chain to a chain of the proxy.
///
/// Other programs have rules in the built-in chains: an entry jump is inserted at the top if it is
/// missing, and never moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jump {
    /// Table of both chains.
    pub table: Table,
    /// Built-in chain that holds the rule.
    pub from: &'static str,
    /// Whole rule, without `-A` and the chain's name.
    pub rule: &'static str,
}

impl Jump {
    const fn filter(from: &'static str, rule: &'static str) -> Self {
        Self {
            table: Table::Filter,
            from,
            rule,
        }
    }

    const fn nat(from: &'static str, rule: &'static str) -> Self {
        Self {
            table: Table::Nat,
            from,
            rule,
        }
    }
}

const EXTERNAL_SERVICES: &str = "-m conntrack --ctstate NEW -m comment --comment \"kubernetes \
    externally-visible service portals\" -j KUBE-EXTERNAL-SERVICES";
const NODE_PORTS: &str =
    "-m comment --comment \"kubernetes health check service ports\" -j KUBE-NODEPORTS";
const FILTER_SERVICES: &str = "-m conntrack --ctstate NEW -m comment --comment \"kubernetes \
    service portals\" -j KUBE-SERVICES";
const FORWARD: &str = "-m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD";
const PROXY_FIREWALL: &str = "-m conntrack --ctstate NEW -m comment --comment \"kubernetes load \
    balancer firewall\" -j KUBE-PROXY-FIREWALL";
const NAT_SERVICES: &str = "-m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES";
const POSTROUTING: &str =
    "-m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING";
const FIREWALL: &str = "-j KUBE-FIREWALL";

/// All entry jumps, in the order in which missing ones are inserted at the top: the last one ends
/// up first.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `iptablesJumpChains`, `iptablesKubeletJumpChains`
/// (v1.37)
pub const JUMPS: [Jump; 14] = [
    Jump::filter("INPUT", EXTERNAL_SERVICES),
    Jump::filter("FORWARD", EXTERNAL_SERVICES),
    Jump::filter("INPUT", NODE_PORTS),
    Jump::filter("FORWARD", FILTER_SERVICES),
    Jump::filter("OUTPUT", FILTER_SERVICES),
    Jump::filter("FORWARD", FORWARD),
    Jump::filter("INPUT", PROXY_FIREWALL),
    Jump::filter("OUTPUT", PROXY_FIREWALL),
    Jump::filter("FORWARD", PROXY_FIREWALL),
    Jump::nat("OUTPUT", NAT_SERVICES),
    Jump::nat("PREROUTING", NAT_SERVICES),
    Jump::nat("POSTROUTING", POSTROUTING),
    Jump::filter("INPUT", FIREWALL),
    Jump::filter("OUTPUT", FIREWALL),
];
