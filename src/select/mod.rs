//! Selects the endpoints of a service port that this node uses: conditions, traffic policies,
//! hints, and the fallback to terminating endpoints.
//!
//! # Source
//!
//! Upstream: pkg/proxy/topology.go, pkg/proxy/endpointslicecache.go (v1.37)
//! KEP: kep.k8s.io/1669, kep.k8s.io/2086, kep.k8s.io/2433, kep.k8s.io/3015

mod endpoints;

#[cfg(test)]
mod tests;

pub(crate) use endpoints::{
    Candidate, EndpointText, MAX_SLICES, PortEndpoints, Selection, local_ready,
};
pub use endpoints::{EndpointGroups, select};
