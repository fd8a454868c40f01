//! How many endpoints of a Service are ready on this node, as load balancers want to know it.
//!
//! Apart from the choice for rules because no policy counts here, and no port.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::merge::merge_named;
use crate::model::ServiceState;
use crate::net::Protocol;

/// The distinct addresses of ready endpoints on this node, behind any port of the slices. Those
/// that are about to go do not count, not even when nobody else is left to answer.
///
/// Upstream: pkg/proxy/endpointschangetracker.go, `LocalReadyEndpoints` (v1.36)
pub fn local_ready(state: &ServiceState) -> usize {
    let slices = state.slices.iter();
    let ports: BTreeSet<(&str, Protocol)> = slices
        .flat_map(|(_, slice)| &slice.ports)
        .map(|port| (&*port.name, port.protocol))
        .collect();
    let ips: BTreeSet<IpAddr> = ports
        .into_iter()
        .flat_map(|(name, protocol)| merge_named(state, name, protocol))
        .filter(|candidate| candidate.endpoint.is_ready && candidate.endpoint.is_local)
        .map(|candidate| candidate.endpoint.ip)
        .collect();
    ips.len()
}
