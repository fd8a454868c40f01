//! Documents of `services`: JSON and YAML with one entry for each service port and family.
//!
//! The fields are an interface: fields may be added, and nothing else may change. Lists are sorted
//! or in the order of the rules. `deploy/docs/schema/services.json` describes each field, and the
//! tests check that everything that is printed is described there.

use std::collections::BTreeSet;
use std::io::Write;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::rows::{Row, RuleFindings};
use crate::cli::snapshot::{PortCounters, RuleSnapshot};
use crate::config::ServicesOutput;
use crate::inspect::API_VERSION;
use crate::inspect::catalog::{
    EndpointView, FrontendConflict, Policy, PortQuery, PortView, RulesetGap, ServiceType,
};
use crate::net::IpFamily;
use crate::rules::Share;

/// Findings on the rules of a node, and the Service ports that are programmed on it. Service ports
/// become values one at a time: all of them would take much memory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListDocument<'a> {
    #[serde(flatten)]
    findings: Value,
    #[serde(serialize_with = "ports")]
    service_ports: &'a [Row],
}

fn ports<S: Serializer>(rows: &&[Row], serializer: S) -> Result<S::Ok, S::Error> {
    let views = |row| Row::views(row).map(move |(family, view)| port(row, family, view));
    serializer.collect_seq(rows.iter().flat_map(views))
}

impl<'a> ListDocument<'a> {
    pub(super) fn new(
        snapshot: &RuleSnapshot,
        rows: &'a [Row],
        findings: &RuleFindings,
        query: &PortQuery,
    ) -> Self {
        Self {
            findings: findings_of(snapshot, findings, query),
            service_ports: rows,
        }
    }

    /// Writes one document: indented JSON with a final line break, or YAML.
    pub(super) fn write(&self, out: &mut dyn Write, output: ServicesOutput) -> anyhow::Result<()> {
        if output == ServicesOutput::Yaml {
            return Ok(out.write_all(serde_saphyr::to_string(self)?.as_bytes())?);
        }
        serde_json::to_writer_pretty(&mut *out, self)?;
        Ok(writeln!(out)?)
    }
}

fn findings_of(snapshot: &RuleSnapshot, findings: &RuleFindings, query: &PortQuery) -> Value {
    let (mut missing_jumps, mut broken_chains) = (Vec::new(), Vec::new());
    for (family, gap) in findings.gaps() {
        let family = family.as_str();
        match gap {
            RulesetGap::Jump(jump) => missing_jumps.push(json!({
                "family": family,
                "from": jump.from(),
                "to": jump.to(),
            })),
            RulesetGap::NoChain(chain) | RulesetGap::NoEffect(chain) => broken_chains.push(json!({
                "family": family,
                "chain": chain.name(),
                "exists": matches!(gap, RulesetGap::NoEffect(_)),
            })),
        }
    }
    let stale = findings.stale();
    let stale = stale.map(|(family, chain)| json!({"family": family.as_str(), "chain": chain}));
    let unknown = findings.unknown.pairs();
    let unknown = unknown.filter(|(_, unknown)| !unknown.is_none());
    let unknown = unknown.map(|(family, unknown)| {
        json!({
            "family": family.as_str(),
            "unreadableRules": unknown.unreadable,
            "unreadableFrontends": unknown.unreadable_frontends,
        })
    });
    json!({
        "apiVersion": API_VERSION,
        "source": snapshot.origin.to_string(),
        "observedAt": snapshot.observed_at,
        "staleChains": stale.collect::<Value>(),
        "missingJumps": missing_jumps,
        "brokenChains": broken_chains,
        "frontendConflicts": findings.conflicts(query).map(conflict).collect::<Value>(),
        "unknown": unknown.collect::<Value>(),
        "familiesWithoutNat": names(&findings.without_nat),
        "familiesWithLegacyRules": names(&findings.with_legacy),
    })
}

fn names(families: &BTreeSet<IpFamily>) -> Value {
    families.iter().map(|family| family.as_str()).collect()
}

/// Adds a field, if it has a value.
fn add(document: &mut Value, key: &str, value: Option<Value>) {
    if let (Some(fields), Some(value)) = (document.as_object_mut(), value) {
        fields.insert(key.to_owned(), value);
    }
}

fn port(row: &Row, family: IpFamily, view: &PortView) -> Value {
    let name = &row.name;
    let least = ServiceType::least(view.frontends.iter());
    let counters = row.counters.get(family).as_ref();
    let endpoints = view.endpoints.iter().enumerate();
    let source_ranges = view.source_ranges.iter();
    let mut document = json!({
        "namespace": name.namespace(),
        "service": name.service(),
        "port": name.port(),
        "protocol": name.protocol,
        "family": family.as_str(),
        "status": row.status_of(family, view).as_str(),
        "type": row.declared_type.or(least).map(ServiceType::as_str),
        "typeSource": if row.declared_type.is_some() { "object" } else { "rules" },
        "entrances": view.frontends,
        "internalTrafficPolicy": view.internal_policy.map(Policy::as_str),
        "externalTrafficPolicy": view.external_policy.map(Policy::as_str),
        "affinitySeconds": view.affinity.map(|time| time.as_secs()),
        "sourceRanges": source_ranges.map(ToString::to_string).collect::<Value>(),
        "endpoints": endpoints
            .map(|(index, one)| endpoint(one, counters, index))
            .collect::<Value>(),
        "chains": view.chains,
        "rules": view.rules,
        "unreadableRules": view.unreadable_rules,
    });
    if let Some(counters) = counters {
        let connections = counters.connections.map(|number| json!(number));
        add(&mut document, "connections", connections);
        let last_full_sync = counters.last_full_sync.map(|at| json!(at));
        add(&mut document, "lastFullSync", last_full_sync);
    }
    document
}

fn conflict((family, conflict): (IpFamily, &FrontendConflict)) -> Value {
    let loser = &conflict.loser;
    json!({
        "family": family.as_str(),
        "namespace": loser.namespace(),
        "service": loser.service(),
        "port": loser.port(),
        "protocol": loser.protocol,
        "entrance": {"kind": conflict.kind, "ip": conflict.ip, "port": conflict.port},
        "owner": conflict.owner,
    })
}

fn endpoint(endpoint: &EndpointView, counters: Option<&PortCounters>, index: usize) -> Value {
    let mut document = json!({
        "address": endpoint.address.to_string(),
        "chain": endpoint.chain,
        "clusterShare": endpoint.cluster.map(|share| share.to_string()),
        "clusterRatio": endpoint.cluster.map(Share::ratio),
        "localShare": endpoint.local.map(|share| share.to_string()),
        "localRatio": endpoint.local.map(Share::ratio),
    });
    if let Some(counters) = counters {
        let connections = counters.endpoints.get(index).copied().flatten();
        let connections = connections.map(|number| json!(number));
        add(&mut document, "connections", connections);
        let ratio = counters.observed_ratio(index).map(|ratio| json!(ratio));
        add(&mut document, "observedRatio", ratio);
    }
    document
}
