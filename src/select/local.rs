//! How many endpoints of a Service are ready on this node, as load balancers want to know it.
//!
//! Apart from the choice for rules because no policy counts here, and no port.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::groups::{EndpointGroups, PortEndpoints};
use crate::model::ServiceState;

/// The distinct addresses of ready endpoints on this node, behind any port of the slices. Those
/// that are about to go do not count, not even when nobody else is left to answer.
///
/// Upstream: pkg/proxy/endpointschangetracker.go, `LocalReadyEndpoints` (v1.36)
pub fn local_ready(state: &ServiceState) -> usize {
    let groups = EndpointGroups::of(state);
    let endpoints = groups.ports().flat_map(PortEndpoints::merge);
    let ips: BTreeSet<IpAddr> = endpoints
        .map(|candidate| candidate.endpoint)
        .filter(|endpoint| endpoint.is_ready && endpoint.is_local)
        .map(|endpoint| endpoint.ip)
        .collect();
    ips.len()
}
