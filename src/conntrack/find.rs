//! Finds the destinations whose packets a sync sends elsewhere, so that conntrack entries may be
//! stale.
//!
//! # Source
//!
//! Upstream: pkg/proxy/conntrack/cleanup.go, `CleanStaleEntries` (v1.36)

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use super::candidates::{Destination, Keep, StaleCandidates};
use crate::model::{Frontend, ServiceName, ServicePort, ServiceState, Services};
use crate::net::Protocol;
use crate::render::{Options, ports};
use crate::select::{EndpointGroups, PortEndpoints};

/// Returns the candidates of a sync after which the kernel has `now`, and had `before` of the
/// Services that changed. A destination belongs to one Service: where it moves from one to
/// another, both changed.
///
/// Differs from upstream: Services whose own ports or addresses changed count as well, and those
/// that were deleted; one that lost all endpoints loses its entries, so that clients get an
/// immediate reject instead of a connection to a dead endpoint. Only Services that changed are
/// checked; kube-proxy checks all of them each time.
pub fn stale_candidates(
    before: &[(ServiceName, ServiceState)],
    now: &dyn Services,
    options: &Options,
) -> StaleCandidates {
    let mut candidates = StaleCandidates::default();
    let mut gone = Vec::new();
    for (name, before) in before {
        let mut before = destinations(before, options);
        let now = now.get(name).map(|state| destinations(state, options));
        for (destination, endpoints) in now.unwrap_or_default() {
            let keep = Keep::RepliesFrom(Arc::clone(&endpoints));
            match before.remove(&destination) {
                Some(known) if only_gained(&known, &endpoints) => {
                    candidates.extend(destination, keep);
                }
                Some(_) | None => candidates.check(destination, keep),
            }
        }
        gone.extend(before.into_keys());
    }
    // Destinations that moved to another Service are candidates already.
    for destination in gone {
        candidates.check(destination, Keep::Untranslated);
    }
    candidates
}

/// Returns the destinations of all Services, for a time in which rules were missing.
pub(crate) fn all_candidates(now: &dyn Services, options: &Options) -> StaleCandidates {
    let mut candidates = StaleCandidates::default();
    for (_, state) in now.all() {
        for (destination, endpoints) in destinations(state, options) {
            candidates.check(destination, Keep::RepliesFrom(endpoints));
        }
    }
    candidates
}

/// Reports whether no entry became stale: endpoints were added, and none was removed. The first
/// endpoint of a destination does not count as added: entries without translation may exist.
fn only_gained(before: &[SocketAddr], now: &[SocketAddr]) -> bool {
    let is_first = before.is_empty() && !now.is_empty();
    !is_first && before.iter().all(|known| now.binary_search(known).is_ok())
}

/// Returns every UDP destination of a Service, with the endpoints whose entries stay.
fn destinations(
    state: &ServiceState,
    options: &Options,
) -> HashMap<Destination, Arc<[SocketAddr]>> {
    let mut destinations = HashMap::new();
    let Some(service) = state.service.as_deref() else {
        return destinations;
    };
    let is_udp = |port: &ServicePort| port.protocol == Protocol::Udp;
    if !service.ports.iter().any(is_udp) {
        return destinations;
    }
    let groups = EndpointGroups::of(state);
    let endpoints: Vec<_> = ports(service, &groups)
        .map(|(port, endpoints)| {
            let endpoints = is_udp(port).then_some(endpoints);
            endpoints.map_or_else(Arc::default, keeping_flows)
        })
        .collect();
    for (of, _) in service.frontends(options.external_ips) {
        let destination = match of.frontend {
            Frontend::Address(ip, port, Protocol::Udp) => {
                Destination::Address(SocketAddr::new(ip, port.get()))
            }
            Frontend::NodePort(port, Protocol::Udp) => Destination::NodePort(port),
            _ => continue,
        };
        if let Some(endpoints) = endpoints.get(usize::from(of.port))
            && state.has(of.port, of.frontend)
        {
            destinations.insert(destination, Arc::clone(endpoints));
        }
    }
    destinations
}

/// Returns the endpoints whose entries stay, sorted: including those without new connections, as
/// they are terminating, or as a policy or a hint prefers others.
///
/// Differs from upstream: the entries of an endpoint that is ready and not serving
/// (`publishNotReadyAddresses`) stay. kube-proxy deletes them, and its rules create them again.
fn keeping_flows(endpoints: PortEndpoints<'_, '_>) -> Arc<[SocketAddr]> {
    let usable = endpoints.all().filter(|(e, _)| e.is_serving || e.is_ready);
    let mut endpoints: Vec<_> = usable
        .map(|(endpoint, port)| SocketAddr::new(endpoint.ip, port.get()))
        .collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    endpoints.into()
}
