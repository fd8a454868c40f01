//! Services with as many endpoints as the API stores, and with more.

use std::sync::Arc;

use super::live::KnownServices;

use crate::model::{
    Endpoint, MOST_ENDPOINTS, Service, ServiceName, ServicePort, ServiceState, Slice, SliceName,
};
use crate::net::IpFamily;
use crate::render::options::{Comments, Options, PartialRestore};
use crate::render::service::{self, ServiceRules, count_ports_over_limit};
use crate::render::{AppliedState, partial_payload};

fn endpoint(number: u32) -> Endpoint {
    Endpoint::ready(std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into())
}

/// A Service with these ports, and slices of a thousand endpoints for each of them.
fn state(ports: &[(&str, u32)]) -> ServiceState {
    let name = ServiceName::new("shop", "cart");
    let slices = ports.iter().flat_map(|(port, endpoints)| {
        let slice = |from: u32| {
            let endpoints = (from..(from + 1000).min(*endpoints)).map(endpoint);
            let slice = Slice::tcp(name.clone(), (*port, 80), endpoints);
            let name = SliceName::new("shop", &format!("{port}-{from:06}"));
            (name, Arc::new(slice))
        };
        let slices: Vec<_> = (0..*endpoints).step_by(1000).map(slice).collect();
        slices
    });
    ServiceState {
        slices: slices.collect(),
        service: Some(Arc::new(Service::plain(
            [10, 96, 0, 1].into(),
            ports
                .iter()
                .map(|(name, _)| ServicePort::tcp(name, 80))
                .collect(),
        ))),
        ..ServiceState::default()
    }
}

/// Returns the number of endpoints with rules, and of ports over the limit.
fn rendered(state: &ServiceState) -> (usize, usize) {
    let options = Options::defaults(IpFamily::V4);
    let mut rules = ServiceRules::default();
    let name = ServiceName::new("shop", "cart");
    service::render(&mut rules, &name, state, &options, Comments::Everywhere);
    (
        service::count_endpoints(state),
        count_ports_over_limit(state),
    )
}

#[test]
fn ten_thousand_endpoints_get_rules() {
    assert_eq!(rendered(&state(&[("web", 10_000)])), (10_000, 0));
}

#[test]
fn ports_times_endpoints_are_limited() {
    let most = u32::try_from(MOST_ENDPOINTS).unwrap();
    assert_eq!(count_ports_over_limit(&state(&[("a", most)])), 0);
    assert_eq!(count_ports_over_limit(&state(&[("a", most), ("b", 1)])), 1);
    // A port over the limit leaves room for the ports after it.
    let three = state(&[("a", most + 1), ("b", 3000), ("c", 2000)]);
    assert_eq!(rendered(&three), (5000, 1));
}

/// The bounds of the number of endpoints decide in most clusters; near the threshold they do not.
#[test]
fn endpoints_in_two_slices_count_once_for_the_comments_of_a_partial_restore() {
    let cart = ServiceName::new("shop", "cart");
    let mut twice = state(&[("web", 3)]);
    let again = (
        SliceName::new("shop", "web-again"),
        Arc::clone(&twice.slices[0].1),
    );
    twice.slices.push(again);
    let has_comments = |services: &KnownServices, applied: &mut AppliedState, threshold| {
        let mut options = Options::defaults(IpFamily::V4);
        options.large_cluster_endpoints = threshold;
        let shape = PartialRestore::ChangedChains;
        let payload = partial_payload(applied, services, [&cart].into_iter(), &options, shape);
        applied.written(payload.rendered);
        let text = String::from_utf8(payload.text).unwrap();
        let endpoints = text.lines().filter(|line| line.starts_with("-A KUBE-SEP-"));
        let comments: Vec<bool> = endpoints.map(|line| line.contains("--comment")).collect();
        assert_eq!(comments.len(), 6, "{text}");
        comments == [true; 6]
    };
    let services = KnownServices::from([(cart.clone(), twice)]);
    for (threshold, expected) in [(2, false), (3, true), (5, true), (6, true)] {
        let mut applied = AppliedState::default();
        let found = has_comments(&services, &mut applied, threshold);
        assert_eq!(found, expected, "{threshold}");
    }
}
