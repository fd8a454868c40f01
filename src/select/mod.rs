//! Which endpoints this node uses for a service port.
//!
//! Apart from rendering because it is all policy and no text: who is ready, who is here, whom the
//! hints mean, and who steps in when nobody is.
//!
//! # Source
//!
//! Upstream: pkg/proxy/topology.go, pkg/proxy/endpointslicecache.go (v1.36)
//! KEP: kep.k8s.io/1669, kep.k8s.io/2086, kep.k8s.io/2433, kep.k8s.io/3015

mod groups;
mod local;
mod text;
mod topology;
mod traffic;

#[cfg(test)]
mod tests;

pub use groups::{EndpointGroups, MOST_SLICES, PortEndpoints};
pub use local::local_ready;
pub use text::EndpointText;
pub use traffic::{Candidate, Selection, select};
