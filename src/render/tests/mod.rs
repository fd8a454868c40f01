//! Tests of what scenarios cannot reach.

use std::net::IpAddr;

use crate::model::{Endpoint, Service, ServiceName, ServicePort, ServiceState, Slice, SliceName};

/// Returns a slice with one endpoint for this port.
pub(super) fn one_endpoint(service: &ServiceName, port: &str) -> Slice {
    let endpoint = Endpoint::ready([10, 180, 0, 1].into());
    Slice::tcp(service.clone(), (port, 80), [endpoint])
}

/// Returns a Service with the port `http` and this slice.
pub(super) fn http_service(cluster_ip: IpAddr, slice: Slice) -> ServiceState {
    let port = ServicePort::tcp("http", 80);
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
