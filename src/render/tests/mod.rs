//! Tests of what scenarios cannot reach.

use std::net::IpAddr;

use crate::model::{
    Endpoint, Service, ServiceName, ServicePort, ServiceState, Slice, SliceName, SlicePort,
};
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
        endpoints: Box::new([Endpoint::ready([10, 180, 0, 1].into())]),
    }
}

/// Returns a Service with the port `http` and this slice.
pub(super) fn http_service(cluster_ip: IpAddr, slice: Slice) -> ServiceState {
    let port = ServicePort {
        name: "http".into(),
        protocol: Protocol::Tcp,
        port: Port::new(80).unwrap(),
        node_port: None,
    };
    ServiceState {
        service: Some(Service::plain(cluster_ip, Box::new([port])).into()),
        slices: vec![(SliceName::new("shop", "slice"), slice.into())],
        ..ServiceState::default()
    }
}

mod blocks;
mod endpoint_limit;
mod guard;
mod live;
mod order;
mod removal;
mod settings;
mod state;
mod undetected;
