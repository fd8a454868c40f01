//! EndpointSlices, reduced to the fields that the selection of endpoints needs.
//!
//! The selection itself is in [`select`](crate::select).

use std::net::IpAddr;
use std::sync::Arc;

use super::name::ServiceName;
use crate::net::{Port, Protocol};

/// Endpoints of one Service in one family. A Service may have several slices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Service of the label `kubernetes.io/service-name`.
    pub service: ServiceName,
    /// Ports of every endpoint of the slice, in the order of the object.
    pub ports: Box<[SlicePort]>,
    /// Endpoints, in the order of the object.
    pub endpoints: Box<[Endpoint]>,
}

/// Port of a slice. It belongs to the Service port of the same name and protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlicePort {
    /// Name; empty without one.
    pub name: Arc<str>,
    /// Protocol.
    pub protocol: Protocol,
    /// Port on the endpoint.
    pub number: Port,
}

/// Address of a Pod or host that serves a Service.
///
/// The three conditions are independent, as in the object: `ready` accounts for
/// `publishNotReadyAddresses` already, and `serving` does not follow from it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "three conditions of the API and one fact"
)]
pub struct Endpoint {
    /// First address; the API allows more, without a meaning.
    pub ip: IpAddr,
    /// Condition `ready`; true if absent.
    pub is_ready: bool,
    /// Condition `serving`: true for a terminating endpoint that still answers; true if absent.
    pub is_serving: bool,
    /// Condition `terminating`. KEP: kep.k8s.io/1669
    pub is_terminating: bool,
    /// The endpoint is on this node.
    pub is_local: bool,
    /// Hint for this node. KEP: kep.k8s.io/3015
    pub node_hint: NodeHint,
    /// Zones of `hints.forZones`; empty without a hint. KEP: kep.k8s.io/2433
    pub zone_hints: Box<[Arc<str>]>,
}

/// `hints.forNodes`, as it concerns this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeHint {
    /// Without a hint.
    #[default]
    Absent,
    /// The hint names this node.
    Here,
    /// The hint names only other nodes.
    Elsewhere,
}
