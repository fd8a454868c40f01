//! Reduces Kubernetes objects to the model.
//!
//! Invalid parts of an object are rejected here, once: every value of the model can be rendered,
//! and each part that is ignored is returned as a [`Diagnostic`] for the shell to log.
//!
//! # Source
//!
//! Upstream: pkg/proxy/serviceport.go, pkg/proxy/endpointslicecache.go (v1.37)

mod decode;
mod endpoint_slice;
mod field;
mod node;
mod object;
mod service;
#[cfg(test)]
mod tests;
pub(crate) mod yaml;

pub(crate) use decode::{
    MAX_QUOTED_CHARS, UnknownField, WrongType, decode, decode_used, nearest, shortened,
};
#[cfg(test)]
pub(crate) use endpoint_slice::IngestedSlice;
pub(crate) use endpoint_slice::SERVICE_NAME_LABEL;
pub use endpoint_slice::endpoint_slice;
pub(crate) use field::Diagnostic;
pub use field::Interner;
pub use node::node;
pub use object::{
    ClientIpConfig, EndpointObject, EndpointSliceObject, Ingress, MapEntry, Named, NodeAddress,
    NodeObject, ServiceObject, ServicePortObject, SessionAffinityConfig, SlicePortObject,
};
pub(crate) use object::{Metadata, ObjectName, ServiceSpec, or_default};
pub use service::service;
