//! Changes of objects, which `watch` sends to the trackers.
//!
//! An API server and a folder of manifests cause the same changes.

use std::time::SystemTime;

use super::endpoint::Slice;
use super::name::{ServiceName, SliceName};
use super::node::Node;
use super::service::Service;

/// Kind of the objects that are listed and watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `v1` Services.
    Service,
    /// `discovery.k8s.io/v1` EndpointSlices.
    EndpointSlice,
    /// The `v1` Node of this proxy.
    Node,
}

impl Kind {
    /// Returns the `kind` of the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Node => "Node",
        }
    }
}

/// Change of one object, reduced to one family.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// New state of a Service; `None`: it is gone, or has no rules in this family.
    Service(ServiceName, Option<Box<Service>>),
    /// New state of a slice; `None`: it is gone. The time is its annotation
    /// `endpoints.kubernetes.io/last-change-trigger-time`.
    Slice(SliceName, Option<Box<Slice>>, Option<SystemTime>),
    /// The Service exists and cannot be decoded: its last known state is kept.
    ServiceKept(ServiceName),
    /// The slice exists and cannot be decoded: its last known state is kept.
    SliceKept(SliceName),
    /// New state of this node; `None`: the Node object is gone.
    Node(Option<Box<Node>>),
    /// A list of this kind begins: the objects up to [`Change::Listed`] are all that exist.
    Listing(Kind),
    /// The list of this kind is complete: objects that were not in it since [`Change::Listing`]
    /// are gone.
    Listed(Kind),
}
