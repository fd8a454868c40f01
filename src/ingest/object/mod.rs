//! Objects of the API, with only the fields that a proxy reads.
//!
//! Own types instead of generated ones: the parser skips unused fields (`managedFields` alone is
//! often half of an object), and no field is required, so that an invalid object does not fail the
//! decoding of a whole list. One type serves both encodings, JSON and protobuf.
//!
//! # Invariants
//!
//! Every field may be absent or `null`; both are read as the default of the field. A field is an
//! `Option` only where the API has a pointer: elsewhere protobuf writes defaults that JSON omits.
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

#[cfg(test)]
pub(crate) use endpoint_slice::Conditions;
pub(crate) use endpoint_slice::Hints;
pub use endpoint_slice::{EndpointObject, EndpointSliceObject, Named, SlicePortObject};
pub use metadata::MapEntry;
pub(crate) use metadata::Metadata;
#[cfg(test)]
pub(crate) use metadata::Time;
pub use node::{NodeAddress, NodeObject};
pub(crate) use service::ServiceSpec;
pub use service::{
    ClientIpConfig, Ingress, ServiceObject, ServicePortObject, SessionAffinityConfig,
};

fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
