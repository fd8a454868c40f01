//! An EndpointSlice, reduced to what choosing endpoints needs.
//!
//! Apart from the choice itself ([`select`](crate::select)), which depends on the Service's
//! policies and on where this node is.

use std::net::IpAddr;
use std::sync::Arc;

use super::name::ServiceName;
use crate::net::{Port, Protocol};

/// Some endpoints of one Service in one family. A Service may have several slices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The Service it belongs to, by label.
    pub service: ServiceName,
    /// The ports that every endpoint of the slice serves, in the order written.
    pub ports: Box<[SlicePort]>,
    /// The endpoints, in the order written.
    pub endpoints: Box<[Endpoint]>,
}

/// A port of a slice. Matched to a Service's port by name and protocol; the number is the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlicePort {
    /// The name, empty if it has none.
    pub name: Arc<str>,
    /// The protocol.
    pub protocol: Protocol,
    /// The port on the endpoint.
    pub number: Port,
}

/// One address behind a Service.
///
/// Three independent conditions, as written: `ready` already accounts for
/// `publishNotReadyAddresses`, and `serving` does not follow from it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "three conditions of the API and one fact"
)]
pub struct Endpoint {
    /// The first address; the API allows more and gives them no meaning.
    pub ip: IpAddr,
    /// Gets traffic. Absent counts as true.
    pub is_ready: bool,
    /// Could answer even if not ready. Absent counts as true.
    pub is_serving: bool,
    /// On its way out. KEP: kep.k8s.io/1669
    pub is_terminating: bool,
    /// Runs on this node.
    pub is_local: bool,
    /// Whether it is meant for this node. KEP: kep.k8s.io/3015
    pub node_hint: NodeHint,
    /// The zones it is meant for; empty means no hint. KEP: kep.k8s.io/2433
    pub zone_hints: Box<[Arc<str>]>,
}

/// What `hints.forNodes` says, seen from this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeHint {
    /// No node hint.
    #[default]
    Absent,
    /// This node is among those named.
    Here,
    /// Only other nodes are named.
    Elsewhere,
}
