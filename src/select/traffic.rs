//! Applies traffic policies and hints to the endpoints of a service port, with terminating
//! endpoints as fallback.

use super::endpoint_text::EndpointText;
use crate::model::{Endpoint, NodeHint, Service, ServicePort, TrafficPolicy};

/// Endpoint of a service port, with the traffic policies under which this node uses it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// `ip:port`.
    pub text: EndpointText,
    /// Conditions and hints.
    pub endpoint: &'a Endpoint,
    /// Gets traffic under policy Cluster.
    pub in_cluster: bool,
    /// Gets traffic under policy Local.
    pub in_local: bool,
}

impl Candidate<'_> {
    /// Reports whether any traffic of this node is sent to it, so that it needs a chain.
    pub fn is_reachable(&self) -> bool {
        self.in_cluster || self.in_local
    }
}

/// All endpoints of a service port, with the traffic policies under which this node uses each.
#[derive(Debug, Clone)]
pub struct Selection<'a> {
    /// Endpoints sorted by text, including unused ones: all count for large-cluster mode.
    pub candidates: Vec<Candidate<'a>>,
    /// Some endpoint in the cluster can serve traffic. Under policy Local that may be none that
    /// this node uses.
    pub has_any: bool,
    /// Some endpoint gets traffic under policy Local.
    pub has_local: bool,
}

/// Marks the endpoints that get traffic under each policy.
///
/// Policy Cluster applies unless the internal policy is Local and the port is not reachable from
/// outside the cluster. Policy Local applies if the internal policy is Local, or if the external
/// one is and the port is reachable from outside.
///
/// Upstream: pkg/proxy/topology.go, `CategorizeEndpoints` (v1.36)
pub fn select<'a>(
    mut candidates: Vec<Candidate<'a>>,
    service: &Service,
    port: &ServicePort,
    zone: Option<&str>,
) -> Selection<'a> {
    let is_external = service.is_externally_accessible(port);
    let is_internal_local = service.internal_policy == TrafficPolicy::Local;
    let uses_cluster = !is_internal_local || is_external;
    let uses_local =
        is_internal_local || (service.external_policy == TrafficPolicy::Local && is_external);

    if uses_cluster {
        mark_cluster(&mut candidates, zone);
    }
    if uses_local {
        mark_local(&mut candidates);
    }
    let has_any = if uses_local {
        candidates
            .iter()
            .any(|c| c.endpoint.is_ready || is_fallback(c.endpoint))
    } else {
        candidates.iter().any(|c| c.in_cluster)
    };
    let has_local = candidates.iter().any(|c| c.in_local);
    Selection {
        candidates,
        has_any,
        has_local,
    }
}

/// Marks ready endpoints within the topology of the hints; if no endpoint is ready, terminating
/// ones that still serve, anywhere.
fn mark_cluster(candidates: &mut [Candidate<'_>], zone: Option<&str>) {
    let ready = candidates
        .iter()
        .map(|c| c.endpoint)
        .filter(|endpoint| endpoint.is_ready);
    let topology = Topology::from_hints(ready, zone);
    let mut has_ready = false;
    for candidate in candidates.iter_mut() {
        candidate.in_cluster = candidate.endpoint.is_ready && topology.admits(candidate.endpoint);
        has_ready |= candidate.in_cluster;
    }
    if !has_ready {
        for candidate in candidates {
            candidate.in_cluster = is_fallback(candidate.endpoint);
        }
    }
}

/// Marks ready endpoints on this node; if none is ready here, terminating ones here that still
/// serve. Hints have no effect: there is only one node.
fn mark_local(candidates: &mut [Candidate<'_>]) {
    let has_ready = candidates
        .iter()
        .any(|c| c.endpoint.is_local && c.endpoint.is_ready);
    for candidate in candidates {
        let endpoint = candidate.endpoint;
        let is_usable = if has_ready {
            endpoint.is_ready
        } else {
            is_fallback(endpoint)
        };
        candidate.in_local = endpoint.is_local && is_usable;
    }
}

const fn is_fallback(endpoint: &Endpoint) -> bool {
    endpoint.is_serving && endpoint.is_terminating
}

/// Part of the cluster that traffic should stay in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Topology<'a> {
    /// All endpoints.
    Anywhere,
    /// Endpoints with a hint for this node.
    SameNode,
    /// Endpoints with a hint for this zone.
    SameZone(&'a str),
}

impl<'a> Topology<'a> {
    /// Returns the topology that follows from the hints of all ready endpoints.
    ///
    /// Upstream: pkg/proxy/topology.go, `topologyModeFromHints` (v1.36)
    fn from_hints<'e>(ready: impl Iterator<Item = &'e Endpoint>, zone: Option<&'a str>) -> Self {
        let mut tally = Tally {
            all_have_node: true,
            all_have_zone: true,
            ..Tally::default()
        };
        for endpoint in ready {
            tally.all_have_node &= endpoint.node_hint != NodeHint::Absent;
            tally.some_names_node |= endpoint.node_hint == NodeHint::Here;
            tally.all_have_zone &= !endpoint.zone_hints.is_empty();
            tally.some_names_zone |= zone.is_some_and(|zone| names_zone(endpoint, zone));
        }
        match zone {
            _ if tally.all_have_node && tally.some_names_node => Self::SameNode,
            Some(zone) if tally.all_have_zone && tally.some_names_zone => Self::SameZone(zone),
            _ => Self::Anywhere,
        }
    }

    /// Reports whether traffic may go to `endpoint`.
    fn admits(self, endpoint: &Endpoint) -> bool {
        match self {
            Self::Anywhere => true,
            Self::SameNode => endpoint.node_hint == NodeHint::Here,
            Self::SameZone(zone) => names_zone(endpoint, zone),
        }
    }
}

#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts about one list"
)]
struct Tally {
    all_have_node: bool,
    some_names_node: bool,
    all_have_zone: bool,
    some_names_zone: bool,
}

fn names_zone(endpoint: &Endpoint, zone: &str) -> bool {
    endpoint.zone_hints.iter().any(|hint| &**hint == zone)
}
