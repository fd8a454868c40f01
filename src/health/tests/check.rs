//! What a sync changes about health checks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::model::{Endpoint, Service, ServicePort, Slice, SliceName, TrafficPolicy};
use crate::net::parse_ip;

fn port(number: u16) -> Port {
    Port::new(number).unwrap()
}

/// A Service with this health-check node port, if it has one, and so many endpoints here.
fn state(health_check: Option<u16>, endpoints: u8) -> ServiceState {
    let http = ServicePort::tcp("http", 80);
    let service = Service {
        external_policy: TrafficPolicy::Local,
        health_check_node_port: health_check.map(port),
        ..Service::plain(parse_ip("10.96.0.1").unwrap(), Box::new([http]))
    };
    let endpoints = (0..endpoints).map(|n| Endpoint {
        is_local: true,
        ..Endpoint::ready(IpAddr::from([10, 4, 0, n]))
    });
    let slice = Slice::tcp(ServiceName::new("ns", "a"), ("http", 8080), endpoints);
    ServiceState {
        service: Some(Arc::new(service)),
        slices: vec![(SliceName::new("ns", "a-1"), Arc::new(slice))],
        ..ServiceState::default()
    }
}

/// What is new if the one Service was and is now so.
fn changed(before: ServiceState, now: Option<ServiceState>) -> Vec<Option<Check>> {
    let name = ServiceName::new("ns", "a");
    let now: BTreeMap<_, _> = now.map(|now| (name.clone(), now)).into_iter().collect();
    let changes = CheckChanges::new(CheckAddresses::All, &[(name, before)], &now);
    let checks = changes.changed.into_iter().map(|(_, check)| check);
    checks.collect()
}

fn check(number: u16, endpoints: usize) -> Check {
    let port = port(number);
    Check { port, endpoints }
}

#[test]
fn a_check_comes_and_goes() {
    let (none, asked) = (ServiceState::default(), state(Some(32_100), 2));
    assert_eq!(changed(none, Some(asked.clone())), [Some(check(32_100, 2))]);
    assert_eq!(changed(asked.clone(), None), [None]);
    assert_eq!(changed(asked.clone(), Some(state(None, 2))), [None]);
    let moved = state(Some(32_200), 2);
    assert_eq!(changed(asked, Some(moved)), [Some(check(32_200, 2))]);
}

#[test]
fn the_number_of_endpoints_changes_one() {
    let (two, none) = (state(Some(32_100), 2), state(Some(32_100), 0));
    assert_eq!(changed(two.clone(), Some(none)), [Some(check(32_100, 0))]);
    let mut other = two.clone();
    Arc::make_mut(other.service.as_mut().unwrap()).affinity =
        Some(std::time::Duration::from_secs(1));
    assert_eq!(changed(two, Some(other)), []);
}

#[test]
fn services_that_nobody_asks_about_change_nothing() {
    assert_eq!(changed(state(None, 2), Some(state(None, 1))), []);
    assert_eq!(changed(state(None, 2), None), []);
    let mut without_ports = state(Some(32_100), 1);
    Arc::make_mut(without_ports.service.as_mut().unwrap()).ports = Box::default();
    assert_eq!(Check::of(&without_ports), None);
}
