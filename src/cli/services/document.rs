//! Documents of `services`: JSON and YAML with one entry for each service port and family.
//!
//! The fields are an interface: fields may be added, and nothing else may change. Lists are sorted
//! or in the order of the rules. `deploy/docs/schema` has the schemas of the documents.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::IpAddr;

use serde::Serialize;

use super::rows::{Row, RowFilter, RuleFindings};
use crate::inspect::catalog::{
    EndpointView, FrontendConflict, FrontendKind, FrontendView, Policy, PortView, RulesetGap,
    ServiceType,
};
use crate::net::IpFamily;

/// Service ports that are programmed on a node, and findings on its rules. Fields may be added.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "deltaproxy services --output json"))]
#[serde(rename_all = "camelCase")]
struct ListDocument<'a> {
    /// One entry for each service port and family, sorted by namespace, Service, port, protocol
    /// and family.
    service_ports: Vec<PortDocument<'a>>,
    /// Chains of service ports in the nat table that no jump leads to.
    stale_chains: Vec<StaleChainDocument<'a>>,
    /// Jumps that are missing in the nat table. Frontends behind them are Unreachable; without the
    /// one from POSTROUTING, no packet is masqueraded.
    missing_jumps: Vec<MissingJumpDocument>,
    /// Chains of the nat table for masquerading and dropping that are missing or without effect.
    broken_chains: Vec<BrokenChainDocument>,
    /// Frontends that a service port requests and another Service has rules for. They are known
    /// for manifests and clusters, and the first ten for a node where deltaproxy serves port 10256;
    /// on other nodes only if both Services have rules, of which no packet reaches those of one.
    frontend_conflicts: Vec<ConflictDocument<'a>>,
    /// Families with rules that cannot be read, or that do not show the name of their Service.
    unknown: Vec<UnknownDocument>,
    /// Families whose nat table was not read. Endpoints, policies and chains of their service ports
    /// are unknown.
    #[cfg_attr(
        test,
        schemars(extend("items" = {"type": "string", "enum": IpFamily::ALL.map(IpFamily::as_str)}))
    )]
    families_without_nat: Vec<&'static str>,
    /// Families with rules of the backend legacy, which the save program reports and does not list.
    #[cfg_attr(
        test,
        schemars(extend("items" = {"type": "string", "enum": IpFamily::ALL.map(IpFamily::as_str)}))
    )]
    families_with_legacy_rules: Vec<&'static str>,
}

/// Parts of the rules of a family that may be of service ports, and do not show of which.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct UnknownDocument {
    /// IP family of the rules.
    #[cfg_attr(test, schemars(extend("enum" = IpFamily::ALL.map(IpFamily::as_str))))]
    family: &'static str,
    /// Number of rules that cannot be read.
    unreadable_rules: usize,
    /// Number of these that may be of frontends.
    unreadable_frontends: usize,
    /// Number of service ports whose names are not in the rules. Their namespace is `<unknown>`,
    /// and in place of the Service they have the hash in the names of their chains.
    unnamed_service_ports: usize,
}

/// Service port in one IP family, as its rules show it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct PortDocument<'a> {
    /// Namespace of the Service.
    namespace: &'a str,
    /// Name of the Service.
    service: &'a str,
    /// Name of the port; empty if it has none.
    port: &'a str,
    /// Transport protocol in lower case, such as tcp.
    protocol: &'a str,
    /// IP family of the rules.
    #[cfg_attr(test, schemars(extend("enum" = IpFamily::ALL.map(IpFamily::as_str))))]
    family: &'static str,
    /// Type of the Service, or the least one that has such frontends, as typeSource tells; null if
    /// no frontend shows one.
    #[cfg_attr(
        test,
        schemars(extend("enum" = ["ClusterIP", "NodePort", "LoadBalancer", null]))
    )]
    r#type: Option<&'static str>,
    /// Source of the type: the object of the Service, or its rules. These do not distinguish a load
    /// balancer without an address from a NodePort, for example.
    #[cfg_attr(test, schemars(extend("enum" = ["object", "rules"])))]
    type_source: &'static str,
    /// Frontends of the service port.
    entrances: &'a [FrontendView],
    /// Traffic policy of the cluster IP; null if rules do not show it.
    #[cfg_attr(test, schemars(extend("enum" = ["Cluster", "Local", null])))]
    internal_traffic_policy: Option<&'static str>,
    /// Traffic policy of all other frontends; null if rules do not show it.
    #[cfg_attr(test, schemars(extend("enum" = ["Cluster", "Local", null])))]
    external_traffic_policy: Option<&'static str>,
    /// Timeout of session affinity in seconds; null without affinity.
    affinity_seconds: Option<u64>,
    /// Networks in `loadBalancerSourceRanges`; empty if clients are not limited.
    source_ranges: Vec<String>,
    /// Endpoints that receive traffic under any policy.
    endpoints: Vec<EndpointDocument<'a>>,
    /// Chains of the nat table that belong to the service port.
    chains: Vec<&'a str>,
    /// Number of rules in all tables.
    rules: usize,
    /// Number of rules in the chains that cannot be read; each may be of an endpoint that is not
    /// listed.
    unreadable_rules: usize,
}

/// Endpoint of a service port.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct EndpointDocument<'a> {
    /// IP address and port.
    address: String,
    /// Chain that sends packets to the endpoint.
    chain: &'a str,
    /// Share of new connections under policy Cluster, such as 1/3; null if it receives none.
    cluster_share: Option<String>,
    /// Share of new connections under policy Local; null if it receives none.
    local_share: Option<String>,
}

/// Chain of a service port in the nat table that no jump leads to.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StaleChainDocument<'a> {
    /// IP family of the rules.
    #[cfg_attr(test, schemars(extend("enum" = IpFamily::ALL.map(IpFamily::as_str))))]
    family: &'static str,
    /// Name of the chain.
    chain: &'a str,
}

/// Jump between two chains of the nat table that is missing.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MissingJumpDocument {
    /// IP family of the rules.
    #[cfg_attr(test, schemars(extend("enum" = IpFamily::ALL.map(IpFamily::as_str))))]
    family: &'static str,
    /// Chain without the jump.
    from: &'static str,
    /// Chain that it would jump to.
    to: &'static str,
}

/// Chain of the nat table that rules of Services depend on.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BrokenChainDocument {
    /// IP family of the rules.
    #[cfg_attr(test, schemars(extend("enum" = IpFamily::ALL.map(IpFamily::as_str))))]
    family: &'static str,
    /// Name of the chain.
    chain: &'static str,
    /// The chain exists, and has no rule with the effect that it is for.
    exists: bool,
}

/// Frontend that a service port requests and another Service has rules for.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ConflictDocument<'a> {
    /// IP family of the frontend.
    #[cfg_attr(test, schemars(extend("enum" = IpFamily::ALL.map(IpFamily::as_str))))]
    family: &'static str,
    /// Namespace of the Service that does not have the frontend.
    namespace: &'a str,
    /// Name of the Service that does not have the frontend.
    service: &'a str,
    /// Name of its port; empty if it has none.
    port: &'a str,
    /// Transport protocol in lower case, such as tcp.
    protocol: &'a str,
    /// Frontend in question.
    entrance: ConflictFrontend,
    /// Namespace and name of the Service that has the frontend.
    owner: &'a str,
}

/// Frontend without rules of its own.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ConflictFrontend {
    /// Field of the Service that the frontend is from.
    kind: FrontendKind,
    /// Virtual IP; null for every address of the node that serves NodePorts.
    ip: Option<IpAddr>,
    /// Port of the frontend.
    port: u16,
}

/// Writes indented JSON with a final line break.
pub(super) fn write_json(
    out: &mut dyn Write,
    rows: &[Row],
    findings: &RuleFindings,
    filter: &RowFilter,
) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &document(rows, findings, filter))?;
    Ok(writeln!(out)?)
}

/// Writes one YAML document.
pub(super) fn write_yaml(
    out: &mut dyn Write,
    rows: &[Row],
    findings: &RuleFindings,
    filter: &RowFilter,
) -> anyhow::Result<()> {
    let document = document(rows, findings, filter);
    Ok(out.write_all(serde_saphyr::to_string(&document)?.as_bytes())?)
}

fn document<'a>(
    rows: &'a [Row],
    findings: &'a RuleFindings,
    filter: &RowFilter,
) -> ListDocument<'a> {
    let stale = findings.stale().map(|(family, chain)| StaleChainDocument {
        family: family.as_str(),
        chain,
    });
    let (mut missing_jumps, mut broken_chains) = (Vec::new(), Vec::new());
    for (family, gap) in findings.gaps() {
        let family = family.as_str();
        match gap {
            RulesetGap::Jump(jump) => missing_jumps.push(MissingJumpDocument {
                family,
                from: jump.from(),
                to: jump.to(),
            }),
            RulesetGap::NoChain(chain) | RulesetGap::NoEffect(chain) => {
                broken_chains.push(BrokenChainDocument {
                    family,
                    chain: chain.name(),
                    exists: matches!(gap, RulesetGap::NoEffect(_)),
                });
            }
        }
    }
    let service_ports = rows.iter().flat_map(|row| {
        let views = row.views();
        views.map(|(family, view)| port_document(row, family, view))
    });
    let unknown = findings.unknown.as_ref().into_pairs().into_iter();
    let unknown = unknown.filter(|(_, unknown)| !unknown.is_none());
    let names = |families: &BTreeSet<IpFamily>| {
        let families = families.iter().copied();
        families.map(IpFamily::as_str).collect()
    };
    ListDocument {
        service_ports: service_ports.collect(),
        stale_chains: stale.collect(),
        missing_jumps,
        broken_chains,
        frontend_conflicts: findings.conflicts(filter).map(conflict).collect(),
        unknown: unknown
            .map(|(family, unknown)| UnknownDocument {
                family: family.as_str(),
                unreadable_rules: unknown.unreadable,
                unreadable_frontends: unknown.unreadable_frontends,
                unnamed_service_ports: unknown.unnamed,
            })
            .collect(),
        families_without_nat: names(&findings.without_nat),
        families_with_legacy_rules: names(&findings.with_legacy),
    }
}

/// Returns the document of a service port in one family.
pub(super) fn port_document<'a>(
    row: &'a Row,
    family: IpFamily,
    view: &'a PortView,
) -> PortDocument<'a> {
    let name = &row.name;
    let least = ServiceType::least(view.frontends.iter());
    PortDocument {
        namespace: name.namespace(),
        service: name.service(),
        port: name.port(),
        protocol: &name.protocol,
        family: family.as_str(),
        r#type: row.declared_type.or(least).map(ServiceType::as_str),
        type_source: if row.declared_type.is_some() {
            "object"
        } else {
            "rules"
        },
        entrances: &view.frontends,
        internal_traffic_policy: view.internal_policy.map(Policy::as_str),
        external_traffic_policy: view.external_policy.map(Policy::as_str),
        affinity_seconds: view.affinity.map(|time| time.as_secs()),
        source_ranges: view.source_ranges.iter().map(ToString::to_string).collect(),
        endpoints: view.endpoints.iter().map(endpoint).collect(),
        chains: view.chains.iter().map(|chain| &**chain).collect(),
        rules: view.rules,
        unreadable_rules: view.unreadable_rules,
    }
}

fn conflict((family, conflict): (IpFamily, &FrontendConflict)) -> ConflictDocument<'_> {
    let loser = &conflict.loser;
    ConflictDocument {
        family: family.as_str(),
        namespace: loser.namespace(),
        service: loser.service(),
        port: loser.port(),
        protocol: &loser.protocol,
        entrance: ConflictFrontend {
            kind: conflict.kind,
            ip: conflict.ip,
            port: conflict.port,
        },
        owner: &conflict.owner,
    }
}

fn endpoint(endpoint: &EndpointView) -> EndpointDocument<'_> {
    EndpointDocument {
        address: endpoint.address.to_string(),
        chain: &endpoint.chain,
        cluster_share: endpoint.cluster.map(|share| share.to_string()),
        local_share: endpoint.local.map(|share| share.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_the_list_is_recorded() {
        crate::schema::assert_recorded::<ListDocument<'_>>("services");
    }
}
