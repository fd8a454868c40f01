//! One fact about one object: what the producers in `watch` tell the trackers.
//!
//! Apart so that an API server and a folder of manifests look the same from below.

use std::time::SystemTime;

use super::endpoint::Slice;
use super::name::{ServiceName, SliceName};
use super::node::Node;
use super::service::Service;

/// The kinds of object that are listed and then followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `v1` Services.
    Service,
    /// `discovery.k8s.io/v1` EndpointSlices.
    EndpointSlice,
    /// `v1` Nodes: this one only.
    Node,
}

impl Kind {
    /// The kind as Kubernetes writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Node => "Node",
        }
    }
}

/// What happened to one object, seen from one family.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The Service is now this; `None`: it is gone, or has no rules in this family.
    Service(ServiceName, Option<Box<Service>>),
    /// The slice is now this; `None`: it is gone. The time is when the cluster last changed what
    /// the slice describes, if the slice says so.
    Slice(SliceName, Option<Box<Slice>>, Option<SystemTime>),
    /// The Service exists, but what it is now cannot be read: what was last known of it stands.
    ServiceKept(ServiceName),
    /// The slice exists, but what it is now cannot be read: what was last known of it stands.
    SliceKept(SliceName),
    /// This node is now so; `None`: the Node object is gone.
    Node(Option<Box<Node>>),
    /// A new list of this kind begins: objects set from here on until [`Change::Listed`] exist.
    Listing(Kind),
    /// The list of this kind is complete: what was not set since [`Change::Listing`] is gone.
    Listed(Kind),
}
