//! Reduces Kubernetes objects to the model.
//!
//! Invalid parts of an object are rejected here, once: every value of the model can be rendered,
//! and each part that is ignored is returned as a [`Diagnostic`] for the shell to log.
//!
//! # Source
//!
//! Upstream: pkg/proxy/serviceport.go, pkg/proxy/endpointslicecache.go (v1.36)

mod diagnostic;
mod endpoint_slice;
mod interner;
mod naming;
mod node;
mod object;
mod service;
mod service_address;
mod service_port;
#[cfg(test)]
mod tests;

pub(crate) use diagnostic::Diagnostic;
#[cfg(test)]
pub(crate) use endpoint_slice::IngestedSlice;
pub use endpoint_slice::endpoint_slice;
pub use interner::Interner;
pub use node::node;
pub use object::{
    ClientIpConfig, EndpointObject, EndpointSliceObject, Ingress, MapEntry, Named, NodeAddress,
    NodeObject, ServiceObject, ServicePortObject, SessionAffinityConfig, SlicePortObject,
};
pub(crate) use object::{Metadata, ServiceSpec};
pub use service::service;
