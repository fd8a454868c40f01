//! Tests of the choice of endpoints, by upstream's table.

mod local;
mod slices;
mod table;

use std::sync::Arc;

use super::{Candidate, EndpointGroups, MAX_SLICES, local_ready, select};
use crate::model::{
    Endpoint, NodeHint, Service, ServiceName, ServicePort, ServiceState, Slice, SliceName,
    SlicePort, Topology, TrafficPolicy,
};
use crate::net::{Port, parse_ip};

fn port(number: u16) -> Port {
    Port::new(number).unwrap()
}

/// Who can reach the Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Inside,
    Outside,
}

fn service(internal: TrafficPolicy, external: TrafficPolicy, reach: Reach) -> Service {
    let only = ServicePort {
        node_port: (reach == Reach::Outside).then(|| port(30_080)),
        ..ServicePort::tcp("p", 80)
    };
    Service {
        internal_policy: internal,
        external_policy: external,
        ..Service::plain(parse_ip("172.30.0.1").unwrap(), Box::new([only]))
    }
}

/// An endpoint in words: `10.0.0.1`, its condition, `here`, `node:here`, `node:elsewhere` and
/// `zone:NAME` in any number.
fn endpoint(text: &str) -> Endpoint {
    let mut words = text.split(' ');
    let mut endpoint = Endpoint {
        is_ready: false,
        is_serving: false,
        ..Endpoint::ready(parse_ip(words.next().unwrap()).unwrap())
    };
    let mut zones: Vec<Arc<str>> = Vec::new();
    for word in words {
        match word {
            "ready" => (endpoint.is_ready, endpoint.is_serving) = (true, true),
            "serving" => endpoint.is_serving = true,
            "terminating" => endpoint.is_terminating = true,
            "unready" => {}
            "here" => endpoint.is_local = true,
            "node:here" => endpoint.node_hint = NodeHint::Here,
            "node:elsewhere" => endpoint.node_hint = NodeHint::Elsewhere,
            zone => zones.push(zone.strip_prefix("zone:").unwrap().into()),
        }
    }
    endpoint.zone_hints = zones.into();
    endpoint
}

fn state(slices: &[(&str, u16, &[Endpoint])]) -> ServiceState {
    let service = ServiceName::new("ns", "svc");
    let slices = slices.iter().map(|(name, number, endpoints)| {
        let slice = Slice::tcp(service.clone(), ("p", *number), endpoints.iter().cloned());
        (SliceName::new("ns", name), Arc::new(slice))
    });
    ServiceState {
        service: None,
        slices: slices.collect(),
        ..ServiceState::default()
    }
}

/// The state of a Service whose slices have endpoints in words.
fn state_of(slices: &[(&str, u16, &[&str])]) -> ServiceState {
    let endpoints = slices.iter().map(|(name, number, texts)| {
        let endpoints: Vec<Endpoint> = texts.iter().map(|text| endpoint(text)).collect();
        (*name, *number, endpoints)
    });
    let endpoints: Vec<_> = endpoints.collect();
    let slices = endpoints.iter();
    let slices = slices.map(|(name, number, endpoints)| (*name, *number, endpoints.as_slice()));
    state(&slices.collect::<Vec<_>>())
}

/// All endpoints of a port, merged.
fn merge<'a>(state: &'a ServiceState, port: &ServicePort) -> Vec<Candidate<'a>> {
    EndpointGroups::of(state).of_port(port).merge()
}
