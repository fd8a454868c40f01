//! Rows for programs: the same fields every time, each list sorted or in the order of the rules.
//!
//! Apart because this is an interface: fields may be added, and nothing else may change.
//!
//! One entry for each service port and family, since everything in it is of one family:
//!
//! ```yaml
//! servicePorts:
//! - namespace: shop
//!   service: web
//!   port: http                     # empty if it has no name
//!   protocol: tcp
//!   family: IPv4
//!   type: LoadBalancer             # the least that has such entrances; null if none are left
//!   entrances:                     # kind, ip (null: every address of the node), port, fate, chain
//!   - {kind: ClusterIP, ip: 10.96.0.10, port: 80, fate: Served, chain: KUBE-SVC-...}
//!   internalTrafficPolicy: Cluster # null where rules do not tell
//!   externalTrafficPolicy: Local
//!   affinitySeconds: 10800         # null: none
//!   sourceRanges: []
//!   endpoints:                     # shares of new connections by policy; null: none
//!   - {address: "10.4.0.1:8080", chain: KUBE-SEP-..., clusterShare: 1/3, localShare: null}
//!   chains: []
//!   rules: 17
//! staleChains:                     # of the nat table
//! - {family: IPv4, chain: KUBE-SVC-...}
//! missingJumps:                    # of the nat table; what is behind them has fate Unreachable
//! - {family: IPv4, from: KUBE-SERVICES, to: KUBE-NODEPORTS}
//! frontendConflicts:               # asked for by this service port, and with rules of the owner
//! - {family: IPv4, namespace: shop, service: web, port: http, protocol: tcp,
//!    entrance: {kind: ExternalIP, ip: 203.0.113.9, port: 80}, owner: shop/api}
//! ```

use std::io::Write;
use std::net::IpAddr;

use serde::Serialize;

use super::beside::Beside;
use super::filter::Filter;
use super::row::{Row, ServiceType};
use crate::inspect::catalog::{
    EndpointView, FrontendConflict, FrontendView, Policy, PortName, PortView,
};
use crate::net::IpFamily;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    service_ports: Vec<Entry<'a>>,
    stale_chains: Vec<StaleChain<'a>>,
    missing_jumps: Vec<MissingJump>,
    frontend_conflicts: Vec<ConflictEntry<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry<'a> {
    namespace: &'a str,
    service: &'a str,
    port: &'a str,
    protocol: &'a str,
    family: &'static str,
    r#type: Option<&'static str>,
    entrances: Vec<Way<'a>>,
    internal_traffic_policy: Option<&'static str>,
    external_traffic_policy: Option<&'static str>,
    affinity_seconds: Option<u64>,
    source_ranges: Vec<String>,
    endpoints: Vec<Answerer<'a>>,
    chains: Vec<&'a str>,
    rules: usize,
}

#[derive(Debug, Serialize)]
struct Way<'a> {
    kind: &'static str,
    ip: Option<IpAddr>,
    port: u16,
    fate: &'static str,
    chain: Option<&'a str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answerer<'a> {
    address: String,
    chain: &'a str,
    cluster_share: Option<String>,
    local_share: Option<String>,
}

#[derive(Debug, Serialize)]
struct StaleChain<'a> {
    family: &'static str,
    chain: &'a str,
}

#[derive(Debug, Serialize)]
struct MissingJump {
    family: &'static str,
    from: &'static str,
    to: &'static str,
}

#[derive(Debug, Serialize)]
struct ConflictEntry<'a> {
    family: &'static str,
    namespace: &'a str,
    service: &'a str,
    port: &'a str,
    protocol: &'a str,
    entrance: AskedEntrance,
    owner: &'a str,
}

#[derive(Debug, Serialize)]
struct AskedEntrance {
    kind: &'static str,
    ip: Option<IpAddr>,
    port: u16,
}

/// Indented, with a final line break.
pub(super) fn write_json(
    out: &mut dyn Write,
    rows: &[Row],
    beside: &Beside,
    filter: &Filter,
) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &document(rows, beside, filter))?;
    Ok(writeln!(out)?)
}

/// One document.
pub(super) fn write_yaml(
    out: &mut dyn Write,
    rows: &[Row],
    beside: &Beside,
    filter: &Filter,
) -> anyhow::Result<()> {
    let document = document(rows, beside, filter);
    Ok(out.write_all(serde_saphyr::to_string(&document)?.as_bytes())?)
}

fn document<'a>(rows: &'a [Row], beside: &'a Beside, filter: &Filter) -> Document<'a> {
    let stale = beside.stale().map(|(family, chain)| StaleChain {
        family: family.as_str(),
        chain,
    });
    let missing = beside.gaps().map(|(family, gap)| MissingJump {
        family: family.as_str(),
        from: gap.from(),
        to: gap.to(),
    });
    let service_ports = rows.iter().flat_map(|row| {
        let views = row.views();
        views.map(|(family, view)| entry(&row.name, family, view))
    });
    Document {
        service_ports: service_ports.collect(),
        stale_chains: stale.collect(),
        missing_jumps: missing.collect(),
        frontend_conflicts: beside.conflicts(filter).map(conflict).collect(),
    }
}

/// What is said of a service port in one family.
pub(super) fn entry<'a>(name: &'a PortName, family: IpFamily, view: &'a PortView) -> Entry<'a> {
    Entry {
        namespace: name.namespace(),
        service: name.service(),
        port: name.port(),
        protocol: &name.protocol,
        family: family.as_str(),
        r#type: ServiceType::of(view.frontends.iter()).map(ServiceType::as_str),
        entrances: view.frontends.iter().map(way).collect(),
        internal_traffic_policy: view.internal_policy.map(Policy::as_str),
        external_traffic_policy: view.external_policy.map(Policy::as_str),
        affinity_seconds: view.affinity.map(|time| time.as_secs()),
        source_ranges: view.source_ranges.iter().map(ToString::to_string).collect(),
        endpoints: view.endpoints.iter().map(answerer).collect(),
        chains: view.chains.iter().map(|chain| &**chain).collect(),
        rules: view.rules,
    }
}

fn conflict((family, conflict): (IpFamily, &FrontendConflict)) -> ConflictEntry<'_> {
    let loser = &conflict.loser;
    ConflictEntry {
        family: family.as_str(),
        namespace: loser.namespace(),
        service: loser.service(),
        port: loser.port(),
        protocol: &loser.protocol,
        entrance: AskedEntrance {
            kind: conflict.kind.id(),
            ip: conflict.ip,
            port: conflict.port,
        },
        owner: &conflict.owner,
    }
}

fn way(entrance: &FrontendView) -> Way<'_> {
    Way {
        kind: entrance.kind.id(),
        ip: entrance.ip,
        port: entrance.port,
        fate: entrance.disposition.id(),
        chain: entrance.chain.as_deref(),
    }
}

fn answerer(endpoint: &EndpointView) -> Answerer<'_> {
    Answerer {
        address: endpoint.address.to_string(),
        chain: &endpoint.chain,
        cluster_share: endpoint.cluster.map(|share| share.to_string()),
        local_share: endpoint.local.map(|share| share.to_string()),
    }
}
