//! All slices of a Service, merged into the endpoints of one port.
//!
//! Apart from the choice among them because it settles order and duplicates, which every later
//! step relies on.

use super::text::EndpointText;
use super::traffic::Candidate;
use crate::model::{ServicePort, ServiceState};
use crate::net::Protocol;

/// Every endpoint behind `port`, whatever its condition, sorted by its text, each text once.
///
/// Two slices may hold the same endpoint while it moves between them. The later one counts,
/// unless it is terminating: then somebody else still vouches for the endpoint.
///
/// Differs from upstream: slices are visited in the order of their names; there it is the random
/// order of a map, so the winner of two that disagree is left to chance.
///
/// Upstream: pkg/proxy/endpointslicecache.go, `addEndpoints` (v1.36)
pub fn merge<'a>(state: &'a ServiceState, port: &ServicePort) -> Vec<Candidate<'a>> {
    merge_named(state, &port.name, port.protocol)
}

/// How many endpoints [`merge`] would find, at most: those in several slices count for each.
pub fn count(state: &ServiceState, port: &ServicePort) -> usize {
    let slices = state.slices.iter().map(|(_, slice)| {
        let ports = slice.ports_called(&port.name, port.protocol);
        ports.count() * slice.endpoints.len()
    });
    slices.sum()
}

/// As [`merge`] for whatever the slices call a port, whether or not the Service has one of that
/// name.
pub(super) fn merge_named<'a>(
    state: &'a ServiceState,
    name: &str,
    protocol: Protocol,
) -> Vec<Candidate<'a>> {
    let mut candidates = Vec::new();
    for (_, slice) in &state.slices {
        for slice_port in slice.ports_called(name, protocol) {
            candidates.extend(slice.endpoints.iter().map(|endpoint| Candidate {
                text: EndpointText::new(endpoint.ip, slice_port.number),
                endpoint,
                in_cluster: false,
                in_local: false,
            }));
        }
    }
    if !candidates.is_sorted_by(|a, b| a.text < b.text) {
        // Stable, so that of equal texts the later slice's stays behind the earlier one's.
        candidates.sort_by_key(|candidate| candidate.text);
        candidates.dedup_by(|later, earlier| {
            let is_same = later.text == earlier.text;
            if is_same && !later.endpoint.is_terminating {
                earlier.endpoint = later.endpoint;
            }
            is_same
        });
    }
    candidates
}
