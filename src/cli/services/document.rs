//! Documents of `services`: JSON and YAML with one entry for each service port and family.
//!
//! The fields are an interface: fields may be added, and nothing else may change. Lists are sorted
//! or in the order of the rules. `deploy/docs/schema/services.json` describes each field, and the
//! tests check that everything that is printed is described there.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::IpAddr;

use jiff::Timestamp;
use serde::Serialize;

use super::rows::{Row, RuleFindings};
use super::status::PortStatus;
use crate::cli::snapshot::{PortCounters, RuleSnapshot};
use crate::inspect::API_VERSION;
use crate::inspect::catalog::{
    EndpointView, FrontendConflict, FrontendKind, FrontendView, Policy, PortQuery, PortView,
    RulesetGap, ServiceType,
};
use crate::net::IpFamily;
use crate::rules::Share;

/// Service ports that are programmed on a node, and findings on its rules.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListDocument<'a> {
    api_version: &'static str,
    source: String,
    observed_at: Option<Timestamp>,
    service_ports: Vec<PortDocument<'a>>,
    stale_chains: Vec<StaleChainDocument<'a>>,
    missing_jumps: Vec<MissingJumpDocument>,
    broken_chains: Vec<BrokenChainDocument>,
    frontend_conflicts: Vec<ConflictDocument<'a>>,
    unknown: Vec<UnknownDocument>,
    families_without_nat: Vec<&'static str>,
    families_with_legacy_rules: Vec<&'static str>,
}

/// Parts of the rules of a family that may be of service ports, and do not show of which.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct UnknownDocument {
    family: &'static str,
    unreadable_rules: usize,
    unreadable_frontends: usize,
}

/// Service port in one IP family, as its rules show it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PortDocument<'a> {
    namespace: &'a str,
    service: &'a str,
    port: &'a str,
    protocol: &'a str,
    family: &'static str,
    status: PortStatus,
    r#type: Option<&'static str>,
    type_source: &'static str,
    entrances: &'a [FrontendView],
    internal_traffic_policy: Option<&'static str>,
    external_traffic_policy: Option<&'static str>,
    affinity_seconds: Option<u64>,
    source_ranges: Vec<String>,
    endpoints: Vec<EndpointDocument<'a>>,
    chains: Vec<&'a str>,
    rules: usize,
    unreadable_rules: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_full_sync: Option<Timestamp>,
}

/// Endpoint of a service port.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointDocument<'a> {
    address: String,
    chain: &'a str,
    cluster_share: Option<String>,
    cluster_ratio: Option<f64>,
    local_share: Option<String>,
    local_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_ratio: Option<f64>,
}

/// Chain of a service port in the nat table that no jump leads to.
#[derive(Debug, Serialize)]
struct StaleChainDocument<'a> {
    family: &'static str,
    chain: &'a str,
}

/// Jump between two chains of the nat table that is missing.
#[derive(Debug, Serialize)]
struct MissingJumpDocument {
    family: &'static str,
    from: &'static str,
    to: &'static str,
}

/// Chain of the nat table that rules of Services depend on.
#[derive(Debug, Serialize)]
struct BrokenChainDocument {
    family: &'static str,
    chain: &'static str,
    exists: bool,
}

/// Frontend that a service port requests and another Service has rules for.
#[derive(Debug, Serialize)]
struct ConflictDocument<'a> {
    family: &'static str,
    namespace: &'a str,
    service: &'a str,
    port: &'a str,
    protocol: &'a str,
    entrance: ConflictFrontend,
    owner: &'a str,
}

/// Frontend without rules of its own.
#[derive(Debug, Serialize)]
struct ConflictFrontend {
    kind: FrontendKind,
    ip: Option<IpAddr>,
    port: u16,
}

/// Writes indented JSON with a final line break.
pub(super) fn write_json(
    out: &mut dyn Write,
    snapshot: &RuleSnapshot,
    rows: &[Row],
    findings: &RuleFindings,
    query: &PortQuery,
) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &document(snapshot, rows, findings, query))?;
    Ok(writeln!(out)?)
}

/// Writes one YAML document.
pub(super) fn write_yaml(
    out: &mut dyn Write,
    snapshot: &RuleSnapshot,
    rows: &[Row],
    findings: &RuleFindings,
    query: &PortQuery,
) -> anyhow::Result<()> {
    let document = document(snapshot, rows, findings, query);
    Ok(out.write_all(serde_saphyr::to_string(&document)?.as_bytes())?)
}

fn document<'a>(
    snapshot: &RuleSnapshot,
    rows: &'a [Row],
    findings: &'a RuleFindings,
    query: &PortQuery,
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
        api_version: API_VERSION,
        source: snapshot.origin.to_string(),
        observed_at: snapshot.observed_at,
        service_ports: service_ports.collect(),
        stale_chains: stale.collect(),
        missing_jumps,
        broken_chains,
        frontend_conflicts: findings.conflicts(query).map(conflict).collect(),
        unknown: unknown
            .map(|(family, unknown)| UnknownDocument {
                family: family.as_str(),
                unreadable_rules: unknown.unreadable,
                unreadable_frontends: unknown.unreadable_frontends,
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
    let counters = row.counters.get(family).as_ref();
    let endpoints = view.endpoints.iter().enumerate();
    PortDocument {
        namespace: name.namespace(),
        service: name.service(),
        port: name.port(),
        protocol: &name.protocol,
        family: family.as_str(),
        status: row.status_of(family, view),
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
        endpoints: endpoints
            .map(|(index, one)| endpoint(one, counters, index))
            .collect(),
        chains: view.chains.iter().map(|chain| &**chain).collect(),
        rules: view.rules,
        unreadable_rules: view.unreadable_rules,
        connections: counters.map(|counters| counters.connections),
        last_full_sync: counters.and_then(|counters| counters.last_full_sync),
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

fn endpoint<'a>(
    endpoint: &'a EndpointView,
    counters: Option<&PortCounters>,
    index: usize,
) -> EndpointDocument<'a> {
    EndpointDocument {
        address: endpoint.address.to_string(),
        chain: &endpoint.chain,
        cluster_share: endpoint.cluster.map(|share| share.to_string()),
        cluster_ratio: endpoint.cluster.map(Share::ratio),
        local_share: endpoint.local.map(|share| share.to_string()),
        local_ratio: endpoint.local.map(Share::ratio),
        connections: counters.and_then(|counters| counters.endpoints.get(index).copied()),
        observed_ratio: counters.and_then(|counters| counters.observed_ratio(index)),
    }
}
