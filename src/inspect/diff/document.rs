//! Fields of the JSON document of `diff`, as `deploy/docs/schema/diff.json` describes them.
//!
//! The fields are an interface: fields are added, never renamed or removed, and lists are sorted.
//! Fields that `services` has as well have the same name there, and an effect is named after the
//! field of `services` that it changes.

use serde::Serialize;

use crate::inspect::catalog::{FrontendDisposition, FrontendView};
#[cfg(test)]
use crate::{net::IpFamily, rules::Table};

/// Differences between the live rules of a node, or the objects of `--from-manifests`, and the
/// desired rules. Fields may be added.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "deltaproxy diff --output json"))]
#[serde(rename_all = "camelCase")]
pub(super) struct DiffDocument<'a> {
    /// IP families that were compared.
    #[cfg_attr(
        test,
        schemars(extend("items" = {"type": "string", "enum": IpFamily::ALL.map(IpFamily::as_str)}))
    )]
    pub(super) families: Vec<&'static str>,
    /// Numbers of differences.
    pub(super) summary: DiffSummary,
    /// Service ports that differ, sorted by name and family.
    pub(super) service_ports: Vec<DiffPort<'a>>,
    /// Chains that differ and belong to no service port, such as KUBE-POSTROUTING.
    pub(super) set_up: Vec<FamilyChain<'a>>,
    /// Chains of service ports on the live side that no jump leads to.
    pub(super) stale_chains: Vec<FamilyChain<'a>>,
    /// Parts without a result, because live rules cannot be read.
    pub(super) not_compared: DiffNotCompared<'a>,
    /// Values that the manifests lack, one line for each kind.
    pub(super) assumptions: &'a [String],
    /// Restores that make the live rules the desired ones.
    pub(super) restores: Vec<DiffRestore<'a>>,
}

/// Numbers of differences in all families.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct DiffSummary {
    /// Service ports on both sides with packets that are treated differently.
    pub(super) changed: usize,
    /// Service ports of the desired side only.
    pub(super) added: usize,
    /// Service ports of the live side only.
    pub(super) removed: usize,
    /// Service ports with differences that affect no packets.
    pub(super) cosmetic: usize,
    /// Chains in `setUp`.
    pub(super) set_up: usize,
    /// Chains in `staleChains`.
    pub(super) stale: usize,
    /// Chains that differ.
    pub(super) chains: usize,
    /// Objects of `--from-manifests` and `--manifests` that differ only in what no rule shows, such
    /// as the class of a load balancer.
    pub(super) hidden_objects: usize,
    /// Live rules of third parties, which are not compared.
    pub(super) foreign_rules: usize,
    /// Differences that the names on the command line do not select.
    pub(super) left_out: LeftOut,
}

/// Parts that are not compared, because live rules cannot be read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct DiffNotCompared<'a> {
    /// Service ports whose rules may be among those that cannot be read.
    pub(super) service_ports: Vec<PortNotCompared<'a>>,
    /// Chains with rules that cannot be read.
    pub(super) chains: Vec<UnreadableChainDocument<'a>>,
    /// Families with rules of the backend legacy, which the save program reports and does not list.
    #[cfg_attr(
        test,
        schemars(extend("items" = {"type": "string", "enum": IpFamily::ALL.map(IpFamily::as_str)}))
    )]
    pub(super) families_with_legacy_rules: Vec<&'static str>,
}

/// Service port that is not compared, in one family.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PortNotCompared<'a> {
    /// Namespace of the Service.
    pub(super) namespace: &'a str,
    /// Name of the Service.
    pub(super) service: &'a str,
    /// Name of the port; empty if it has none.
    pub(super) port: &'a str,
    /// Transport protocol in lower case, such as tcp.
    pub(super) protocol: &'a str,
    /// IP family of the rules.
    #[cfg_attr(test, schemars(extend("enum" = IpFamily::ALL.map(IpFamily::as_str))))]
    pub(super) family: &'static str,
}

/// Chain with live rules that cannot be read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct UnreadableChainDocument<'a> {
    /// IP family of the rules.
    #[cfg_attr(test, schemars(extend("enum" = IpFamily::ALL.map(IpFamily::as_str))))]
    pub(super) family: &'static str,
    /// Table of the chain.
    #[cfg_attr(test, schemars(extend("enum" = Table::ALL.map(Table::as_str))))]
    pub(super) table: &'static str,
    /// Name of the chain.
    pub(super) chain: &'a str,
    /// Number of rules that cannot be read.
    pub(super) rules: usize,
}

/// Numbers of differences that are not in the document.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct LeftOut {
    /// Service ports that differ.
    pub(super) service_ports: usize,
    /// Chains that differ and belong to no service port, or are stale.
    pub(super) chains: usize,
}

/// Service port that differs, in one family.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DiffPort<'a> {
    /// Namespace of the Service.
    pub(super) namespace: &'a str,
    /// Name of the Service.
    pub(super) service: &'a str,
    /// Name of the port; empty if it has none.
    pub(super) port: &'a str,
    /// Transport protocol in lower case, such as tcp.
    pub(super) protocol: &'a str,
    /// IP family of the rules.
    #[cfg_attr(test, schemars(extend("enum" = IpFamily::ALL.map(IpFamily::as_str))))]
    pub(super) family: &'static str,
    /// Kind of the difference; cosmetic if no packet is treated differently.
    #[cfg_attr(
        test,
        schemars(extend("enum" = ["appears", "disappears", "changes", "cosmetic"]))
    )]
    pub(super) verdict: &'static str,
    /// Effects on traffic.
    pub(super) effects: Vec<DiffEffect<'a>>,
    /// Chains that differ.
    pub(super) chains: Vec<DiffChain<'a>>,
}

/// Chain that differs, or the rules of one service port in a dispatch chain.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DiffChain<'a> {
    /// Table of the chain.
    #[cfg_attr(test, schemars(extend("enum" = Table::ALL.map(Table::as_str))))]
    pub(super) table: &'static str,
    /// Name of the chain.
    pub(super) chain: &'a str,
    /// Side that has the chain: left (live), right (desired) or both.
    #[cfg_attr(test, schemars(extend("enum" = ["left", "right", "both"])))]
    pub(super) side: &'static str,
    /// No packet is treated differently.
    pub(super) cosmetic: bool,
    /// Both sides have the same rules or targets, in a different order.
    pub(super) reordered: bool,
    /// Rules of the live side only.
    pub(super) removed: Vec<String>,
    /// Rules of the desired side only.
    pub(super) added: Vec<String>,
}

/// Chain that differs, with its family.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FamilyChain<'a> {
    /// IP family of the rules.
    #[cfg_attr(test, schemars(extend("enum" = IpFamily::ALL.map(IpFamily::as_str))))]
    pub(super) family: &'static str,
    #[serde(flatten)]
    pub(super) chain: DiffChain<'a>,
}

/// Restore that the daemon would run. Against live rules, it is the restore of a daemon that adopts
/// none of them; a starting daemon adopts the correct ones and writes less.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DiffRestore<'a> {
    /// IP family of the rules.
    #[cfg_attr(test, schemars(extend("enum" = IpFamily::ALL.map(IpFamily::as_str))))]
    pub(super) family: &'static str,
    /// Chains that are restored: all of the proxy (full), or those that differ (partial).
    #[cfg_attr(test, schemars(extend("enum" = ["full", "partial"])))]
    pub(super) scope: &'static str,
    /// Reason for the scope, as in the log.
    pub(super) reason: &'static str,
    /// Number of changed Services; null for a full restore.
    pub(super) services: Option<usize>,
    /// Chains that are written or deleted.
    pub(super) chains: u64,
    /// Lines of the payload.
    pub(super) lines: u64,
    /// Bytes of the payload.
    pub(super) bytes: u64,
    /// Input for iptables-restore; null for a full restore.
    pub(super) payload: Option<&'a str>,
}

/// Effect on traffic. `before` is the live side, `after` the desired one.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
#[expect(
    clippy::option_option,
    reason = "a field that is absent differs from one that is null"
)]
pub(super) enum DiffEffect<'a> {
    /// Only the desired side has the frontend.
    EntranceAdded { entrance: &'a FrontendView },
    /// Only the live side has the frontend.
    EntranceRemoved { entrance: &'a FrontendView },
    /// The frontend, which is that of the desired side, had another fate.
    Fate {
        entrance: &'a FrontendView,
        before: FrontendDisposition,
    },
    /// The policy of the cluster IP differs; null if rules do not show it.
    InternalTrafficPolicy(BeforeAfter<&'static str>),
    /// The policy of all other frontends differs; null if rules do not show it.
    ExternalTrafficPolicy(BeforeAfter<&'static str>),
    /// The endpoints of these frontends differ.
    Endpoints {
        /// Policy of the desired side; of the live side if the service port disappears.
        #[cfg_attr(test, schemars(extend("enum" = ["Cluster", "Local"])))]
        policy: &'static str,
        entrances: &'a [FrontendView],
        /// Number of endpoints.
        before: usize,
        /// Number of endpoints.
        after: usize,
        /// Addresses of endpoints of the desired side only.
        added: Vec<String>,
        /// Addresses of endpoints of the live side only.
        removed: Vec<String>,
    },
    /// The share of an endpoint under policy Cluster differs.
    ClusterShare(ShareChange),
    /// The share of an endpoint under policy Local differs.
    LocalShare(ShareChange),
    /// The timeout of session affinity differs; null without affinity.
    AffinitySeconds(BeforeAfter<u64>),
    /// The networks in `loadBalancerSourceRanges` differ.
    SourceRanges {
        added: Vec<String>,
        removed: Vec<String>,
    },
    /// The clients differ whose traffic to a cluster IP is masqueraded; null if none is. Without
    /// both fields, only the chains show the difference.
    Masquerade {
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<Option<DiffClients<'a>>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<Option<DiffClients<'a>>>,
    },
    /// Rules that drop or reject differ; only the chains show how.
    Refusals,
    /// The rules are the same, in a different order.
    Order,
    /// Rules differ, and no other effect covers it.
    Rules,
}

/// Values of the live and of the desired side.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BeforeAfter<T> {
    pub(super) before: Option<T>,
    pub(super) after: Option<T>,
}

/// Shares of new connections that an endpoint receives, such as 1/3.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ShareChange {
    /// IP address and port of the endpoint.
    pub(super) address: String,
    pub(super) before: String,
    pub(super) after: String,
}

/// Clients whose traffic to a cluster IP is masqueraded.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DiffClients<'a> {
    /// All clients, or those outside of the network or the interface.
    #[cfg_attr(test, schemars(extend("enum" = ["all", "outside"])))]
    pub(super) kind: &'static str,
    /// Network of Pods that are not masqueraded.
    pub(super) network: Option<String>,
    /// Interface of Pods that are not masqueraded; a final `+` matches all with this prefix.
    pub(super) interface: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_differences_is_recorded() {
        crate::schema::assert_recorded::<DiffDocument<'_>>("diff");
    }
}
