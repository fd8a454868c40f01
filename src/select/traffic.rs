//! Applies traffic policies to the endpoints of a service port, with terminating endpoints as
//! fallback.

use super::text::EndpointText;
use super::topology::Topology;
use crate::model::{Endpoint, Service, ServicePort, TrafficPolicy};

/// Endpoint of a service port with its uses.
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

/// All endpoints of a service port with their uses.
#[derive(Debug, Clone)]
pub struct Selection<'a> {
    /// Endpoints sorted by text, including unused ones: all count for large-cluster mode.
    pub candidates: Vec<Candidate<'a>>,
    /// Some endpoint of the cluster is usable, if not by this node.
    pub has_any: bool,
    /// Some endpoint gets traffic under policy Local.
    pub has_local: bool,
}

/// Marks the uses of each endpoint.
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
