//! The choice itself: traffic policies, and who steps in when nobody is ready.
//!
//! Kept separate from [`groups`](super::groups) because this is the table of upstream's
//! documentation, and should read like it.

use super::text::EndpointText;
use super::topology::Topology;
use crate::model::{Endpoint, Service, ServicePort, TrafficPolicy};

/// An endpoint of a service port, and what it is used for.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// `ip:port`.
    pub text: EndpointText,
    /// Its conditions and hints.
    pub endpoint: &'a Endpoint,
    /// Answers traffic under policy Cluster.
    pub in_cluster: bool,
    /// Answers traffic under policy Local.
    pub in_local: bool,
}

impl Candidate<'_> {
    /// Whether any traffic from this node can reach it, so that it needs a chain.
    pub fn is_reachable(&self) -> bool {
        self.in_cluster || self.in_local
    }
}

/// All endpoints of a service port with their uses.
#[derive(Debug, Clone)]
pub struct Selection<'a> {
    /// Sorted by text. Also those that are not used: their number counts for large-cluster mode.
    pub candidates: Vec<Candidate<'a>>,
    /// Some endpoint somewhere could answer, whether or not this node may use it.
    pub has_any: bool,
    /// Some candidate answers under policy Local.
    pub has_local: bool,
}

/// Marks what each of `candidates` is used for.
///
/// Which policies apply follows from the Service: Cluster unless the internal policy is Local and
/// nobody outside can reach the port; Local if the internal policy is, or if the external one is
/// and somebody outside can.
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

/// Ready endpoints within the hinted topology; if nobody is ready anywhere, those that are
/// terminating but still serve, wherever they are.
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

/// Ready endpoints on this node; if none is ready here, those here that are terminating but still
/// serve. Hints do not matter: there is only one node.
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
