//! The API's objects, with the fields a proxy reads and no others.
//!
//! Own types instead of generated ones because the parser then skips what nobody needs
//! (managedFields alone is often half of an object) without building it, and because nothing in
//! them is required: an odd object is a matter for `ingest`, not a reason to refuse a whole list.
//! One type for both of the API's encodings, JSON and protobuf, so that whatever follows cannot
//! tell which of them an object came in.
//!
//! # Invariants
//!
//! Every field may be absent or `null`; both read as the field's default. A field is an `Option`
//! only where the API has a pointer: elsewhere protobuf writes what JSON leaves out.
//!
//! # Source
//!
//! Upstream: k8s.io/api/core/v1/generated.proto, k8s.io/api/discovery/v1/generated.proto,
//! k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto (v1.36)

mod endpoint_slice;
mod metadata;
mod node;
mod service;

use serde::{Deserialize, Deserializer};

pub use endpoint_slice::{
    Conditions, EndpointObject, EndpointSliceObject, Hints, Named, SlicePortObject,
};
pub use metadata::{Entry, Metadata, Time};
pub use node::{NodeAddress, NodeObject, NodeSpec, NodeStatus, Taint};
pub use service::{
    ClientIpConfig, Ingress, LoadBalancerStatus, ServiceObject, ServicePortObject, ServiceSpec,
    ServiceStatus, SessionAffinityConfig,
};

fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
