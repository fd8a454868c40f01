//! Tests of what scenarios cannot reach.

use crate::model::{Endpoint, NodeHint, ServiceName, Slice, SlicePort};
use crate::net::{Port, Protocol};

/// Returns a slice with one endpoint for this port.
pub(super) fn one_endpoint(service: &ServiceName, port: &str) -> Slice {
    Slice {
        service: service.clone(),
        ports: Box::new([SlicePort {
            name: port.into(),
            protocol: Protocol::Tcp,
            number: Port::new(80).unwrap(),
        }]),
        endpoints: Box::new([Endpoint {
            ip: [10, 180, 0, 1].into(),
            is_ready: true,
            is_serving: true,
            is_terminating: false,
            is_local: false,
            node_hint: NodeHint::Absent,
            zone_hints: Box::default(),
        }]),
    }
}

mod blocks;
mod endpoint_limit;
mod guard;
mod live;
mod order;
mod removal;
mod state;
