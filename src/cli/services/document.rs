//! HostSettings-readable rows: the same fields every time, each list sorted or in the order of the
//! rules.
//!
//! The fields are an interface: fields may be added, and nothing else may change. Each service
//! port has an entry for each family:
//!
//! ```yaml
//! servicePorts:
//! - namespace: shop
//!   service: web
//!   port: http                     # empty if it has no name
//!   protocol: tcp
//!   family: IPv4
//!   type: LoadBalancer             # the least that has such entrances; null if none are left
//!   entrances:                     # ip null: every address of the node
//!   - {kind: ClusterIP, ip: 10.96.0.10, port: 80, fate: Served, chain: KUBE-SVC-...}
//!   internalTrafficPolicy: Cluster # null if rules do not show it
//!   externalTrafficPolicy: Local
//!   affinitySeconds: 10800         # null: none
//!   sourceRanges: []
//!   endpoints:                     # shares of new connections by policy; null: none
//!   - {address: "10.4.0.1:8080", chain: KUBE-SEP-..., clusterShare: 1/3, localShare: null}
//!   chains: []
//!   rules: 17
//! staleChains:                     # of the nat table
//! - {family: IPv4, chain: KUBE-SVC-...}
//! missingJumps:                    # of the nat table; frontends behind: fate Unreachable
//! - {family: IPv4, from: KUBE-SERVICES, to: KUBE-NODEPORTS}
//! frontendConflicts:               # declared by this service port, with rules of the owner
//! - {family: IPv4, namespace: shop, service: web, port: http, protocol: tcp,
//!    entrance: {kind: ExternalIP, ip: 203.0.113.9, port: 80}, owner: shop/api}
//! ```

use std::io::Write;
use std::net::IpAddr;

use serde::Serialize;

use super::rows::{Row, RowFilter, RuleFindings, ServiceType};
use crate::inspect::catalog::{
    EndpointView, FrontendConflict, FrontendView, Policy, PortName, PortView,
};
use crate::net::IpFamily;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListDocument<'a> {
    service_ports: Vec<PortDocument<'a>>,
    stale_chains: Vec<StaleChainDocument<'a>>,
    missing_jumps: Vec<MissingJumpDocument>,
    frontend_conflicts: Vec<ConflictDocument<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PortDocument<'a> {
    namespace: &'a str,
    service: &'a str,
    port: &'a str,
    protocol: &'a str,
    family: &'static str,
    r#type: Option<&'static str>,
    entrances: Vec<FrontendDocument<'a>>,
    internal_traffic_policy: Option<&'static str>,
    external_traffic_policy: Option<&'static str>,
    affinity_seconds: Option<u64>,
    source_ranges: Vec<String>,
    endpoints: Vec<EndpointDocument<'a>>,
    chains: Vec<&'a str>,
    rules: usize,
}

#[derive(Debug, Serialize)]
struct FrontendDocument<'a> {
    kind: &'static str,
    ip: Option<IpAddr>,
    port: u16,
    fate: &'static str,
    chain: Option<&'a str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointDocument<'a> {
    address: String,
    chain: &'a str,
    cluster_share: Option<String>,
    local_share: Option<String>,
}

#[derive(Debug, Serialize)]
struct StaleChainDocument<'a> {
    family: &'static str,
    chain: &'a str,
}

#[derive(Debug, Serialize)]
struct MissingJumpDocument {
    family: &'static str,
    from: &'static str,
    to: &'static str,
}

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

#[derive(Debug, Serialize)]
struct ConflictFrontend {
    kind: &'static str,
    ip: Option<IpAddr>,
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
    let missing = findings.gaps().map(|(family, gap)| MissingJumpDocument {
        family: family.as_str(),
        from: gap.from(),
        to: gap.to(),
    });
    let service_ports = rows.iter().flat_map(|row| {
        let views = row.views();
        views.map(|(family, view)| port_document(&row.name, family, view))
    });
    ListDocument {
        service_ports: service_ports.collect(),
        stale_chains: stale.collect(),
        missing_jumps: missing.collect(),
        frontend_conflicts: findings.conflicts(filter).map(conflict).collect(),
    }
}

/// Returns the document of a service port in one family.
pub(super) fn port_document<'a>(
    name: &'a PortName,
    family: IpFamily,
    view: &'a PortView,
) -> PortDocument<'a> {
    PortDocument {
        namespace: name.namespace(),
        service: name.service(),
        port: name.port(),
        protocol: &name.protocol,
        family: family.as_str(),
        r#type: ServiceType::of(view.frontends.iter()).map(ServiceType::as_str),
        entrances: view.frontends.iter().map(frontend).collect(),
        internal_traffic_policy: view.internal_policy.map(Policy::as_str),
        external_traffic_policy: view.external_policy.map(Policy::as_str),
        affinity_seconds: view.affinity.map(|time| time.as_secs()),
        source_ranges: view.source_ranges.iter().map(ToString::to_string).collect(),
        endpoints: view.endpoints.iter().map(endpoint).collect(),
        chains: view.chains.iter().map(|chain| &**chain).collect(),
        rules: view.rules,
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
            kind: conflict.kind.id(),
            ip: conflict.ip,
            port: conflict.port,
        },
        owner: &conflict.owner,
    }
}

fn frontend(frontend: &FrontendView) -> FrontendDocument<'_> {
    FrontendDocument {
        kind: frontend.kind.id(),
        ip: frontend.ip,
        port: frontend.port,
        fate: frontend.disposition.id(),
        chain: frontend.chain.as_deref(),
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
