//! Tests of `summary`.

use std::sync::Arc;

use super::*;
use crate::model::{Endpoint, PortFrontend, Service, ServicePort, Slice, SliceName, SlicePort};
use crate::status::ServiceSearch;

const LIMITS: SummaryLimits = SummaryLimits {
    ports: 2,
    frontends: 3,
    endpoints: 3,
};

fn port(number: u16) -> Port {
    Port::new(number).unwrap()
}

fn ip(text: &str) -> std::net::IpAddr {
    text.parse().unwrap()
}

/// Returns a Service `shop/web` with two endpoints on other nodes and one on this node.
fn shop() -> ServiceState {
    let ports = ["a", "b", "c"].map(|name| ServicePort {
        node_port: (name == "a").then(|| port(30080)),
        ..ServicePort::tcp(name, 80)
    });
    let mut service = Service::plain(ip("10.0.0.1"), ports.into());
    service.external_policy = TrafficPolicy::Local;
    service.external_ips = [ip("192.0.2.1"), ip("192.0.2.2")].into();
    let mut endpoints = ["10.4.0.1", "10.4.0.2", "10.4.0.3"].map(|text| Endpoint::ready(ip(text)));
    endpoints[1].is_local = true;
    let slice = Slice {
        service: ServiceName::new("shop", "web"),
        ports: ["a", "b"].map(|name| SlicePort::tcp(name, 8080)).into(),
        endpoints: endpoints.into(),
    };
    ServiceState {
        service: Some(Arc::new(service)),
        slices: vec![(SliceName::new("shop", "web-1"), Arc::new(slice))],
        ..ServiceState::default()
    }
}

fn summary(state: &ServiceState) -> RulesSummary {
    let name = ServiceName::new("shop", "web");
    let topology = Topology::default();
    RulesSummary::of(&name, state, &topology, ExternalIps::Served, LIMITS).unwrap()
}

fn frontends(port: &PortSummary) -> Vec<String> {
    let all = port.frontends.first.iter();
    all.map(|one| format!("{} {} {:?}", one.kind, one.frontend, one.disposition))
        .collect()
}

#[test]
fn each_port_has_its_frontends_and_endpoints_within_the_limits() {
    let summary = summary(&shop());
    assert_eq!((summary.ports.first.len(), summary.ports.count), (2, 3));
    let [a, b] = summary.ports.first.as_slice() else {
        panic!("{summary:?}");
    };
    let expected = [
        "ClusterIP 10.0.0.1:80/tcp Some(Forward)",
        "ExternalIP 192.0.2.1:80/tcp Some(Forward)",
        "ExternalIP 192.0.2.2:80/tcp Some(Forward)",
    ];
    assert_eq!(frontends(a), expected);
    // The NodePort.
    assert_eq!(a.frontends.left_out(), 1);
    assert_eq!((a.in_cluster, a.in_local), (3, 1));
    assert_eq!(a.endpoints.first[1].text.to_string(), "10.4.0.2:8080");
    assert!(a.endpoints.first[1].in_local && !a.endpoints.first[0].in_local);
    // The limit of endpoints is of all ports together.
    assert_eq!((b.endpoints.first.len(), b.endpoints.count), (0, 3));
}

#[test]
fn dispositions_follow_from_endpoints_policies_and_conflicts() {
    let mut state = shop();
    let frontend = Frontend::Address(ip("192.0.2.1"), port(80), Protocol::Tcp);
    let lost = PortFrontend {
        port_index: 0,
        frontend,
    };
    state.lost.insert(lost);
    let mut slice = (*state.slices[0].1).clone();
    slice.endpoints[1].is_local = false;
    state.slices[0].1 = Arc::new(slice);
    let expected = [
        "ClusterIP 10.0.0.1:80/tcp Some(Forward)",
        "ExternalIP 192.0.2.1:80/tcp None",
        "ExternalIP 192.0.2.2:80/tcp Some(Drop)",
    ];
    assert_eq!(frontends(&summary(&state).ports.first[0]), expected);
    state.slices.clear();
    let first = |state: &ServiceState| summary(state).ports.first[0].frontends.first[0].disposition;
    assert_eq!(first(&state), Some(Disposition::Reject));
    state.allowance = Allowance::NoRules;
    assert_eq!(first(&state), None);
}

#[test]
fn addresses_of_frontends_and_endpoints_are_found() {
    let state = shop();
    let name = ServiceName::new("shop", "web");
    let is_found = |address: &str| ServiceSearch::new(address).finds(&name, &state);
    for address in ["10.0.0.1", "192.0.2.2", "10.4.0.3"] {
        assert!(is_found(address), "{address}");
    }
    assert!(!is_found("10.4.0.4"));
}
