//! Chains that always exist, with or without Services: dispatch chains, fixed chains and canaries.

use super::service_chain::is_service_chain;
use crate::rules::{COUNTER_TEST_CHAIN, Table};

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

/// Canary: empty chain in every table. Without it, a program has deleted the chains of the table;
/// `iptables -F` leaves it.
///
/// Upstream: pkg/util/iptables/iptables.go, `Monitor` (v1.36)
pub const KUBE_PROXY_CANARY: &str = "KUBE-PROXY-CANARY";

/// Chains of the filter table that every full restore writes, besides [`KUBE_FIREWALL`].
pub(crate) const FILTER_CHAINS: [&str; 5] = [
    KUBE_SERVICES,
    KUBE_EXTERNAL_SERVICES,
    KUBE_FORWARD,
    KUBE_NODEPORTS,
    KUBE_PROXY_FIREWALL,
];

/// Chains of the nat table that every full restore writes.
pub(crate) const NAT_CHAINS: [&str; 4] = [
    KUBE_SERVICES,
    KUBE_NODEPORTS,
    KUBE_POSTROUTING,
    KUBE_MARK_MASQ,
];

/// Chains of the nat table that a proxy in IPVS mode has, and no other.
///
/// Upstream: pkg/proxy/ipvs/proxier.go, `kubeLoadBalancerChain`, `kubeNodePortChain` (v1.36)
pub(crate) const IPVS_CHAINS: [&str; 2] = ["KUBE-LOAD-BALANCER", "KUBE-NODE-PORT"];

/// Chain that always exists, and to which every Service adds rules.
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
    /// `KUBE-SERVICES` of the nat table: virtual IPs.
    NatServices,
    /// `KUBE-NODEPORTS` of the nat table: NodePorts.
    NatNodePorts,
}

impl DispatchChain {
    /// All dispatch chains, by table.
    pub(crate) const ALL: [Self; 6] = [
        Self::FilterServices,
        Self::FilterExternalServices,
        Self::FilterNodePorts,
        Self::FilterProxyFirewall,
        Self::NatServices,
        Self::NatNodePorts,
    ];

    /// Returns the name of the chain in its table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::FilterServices | Self::NatServices => KUBE_SERVICES,
            Self::FilterExternalServices => KUBE_EXTERNAL_SERVICES,
            Self::FilterNodePorts | Self::NatNodePorts => KUBE_NODEPORTS,
            Self::FilterProxyFirewall => KUBE_PROXY_FIREWALL,
        }
    }

    /// Returns the table of the chain.
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

/// Reports whether a proxy, of any version, makes a chain of this name in this table.
/// [`KUBE_FIREWALL`] is not among them: kubelet makes and owns it as well.
pub(crate) fn is_proxy_chain(table: Table, name: &str) -> bool {
    let is_proxys = match table {
        Table::Filter => FILTER_CHAINS.contains(&name),
        Table::Nat => NAT_CHAINS.contains(&name) || is_service_chain(name),
        Table::Mangle => name == COUNTER_TEST_CHAIN,
    };
    is_proxys || name == KUBE_PROXY_CANARY
}
