//! Slices become one sorted list without duplicates.
//!
//! Upstream: `pkg/proxy/endpointslicecache_test.go`, `TestEndpointsMapFromESC`,
//! `TestEndpointInfoByServicePort` (v1.37)

use super::*;

fn plain_service() -> Service {
    let cluster = TrafficPolicy::Cluster;
    service(cluster, cluster, Reach::Inside)
}

/// The merged list as `ip:port`, with a `!` where the endpoint that counts is not ready.
#[track_caller]
fn check(slices: &[(&str, u16, &[&str])], expected: &[&str]) {
    let state = state_of(slices);
    let service = plain_service();
    let merged: Vec<_> = merge(&state, &service.ports[0])
        .iter()
        .map(|c| format!("{}{}", c.text, if c.endpoint.is_ready { "" } else { "!" }))
        .collect();
    assert_eq!(merged, expected);
}

#[test]
fn of_two_that_are_the_same_the_later_counts_unless_it_terminates() {
    let (up, down, leaving) = (
        ["10.0.0.1 ready"],
        ["10.0.0.1 unready"],
        ["10.0.0.1 terminating"],
    );
    check(&[("s", 80, &up), ("t", 80, &down)], &["10.0.0.1:80!"]);
    check(&[("s", 80, &down), ("t", 80, &up)], &["10.0.0.1:80"]);
    check(&[("s", 80, &up), ("t", 80, &leaving)], &["10.0.0.1:80"]);
    check(&[("s", 80, &leaving), ("t", 80, &up)], &["10.0.0.1:80"]);
    check(
        &[("s", 80, &up), ("t", 80, &leaving), ("u", 80, &down)],
        &["10.0.0.1:80!"],
    );
    check(
        &[("s", 80, &["10.0.0.1 ready", "10.0.0.1 unready"])],
        &["10.0.0.1:80!"],
    );
}

#[test]
fn ports_are_found_wherever_a_slice_has_them() {
    let mut state = state_of(&[("s", 80, &["10.0.0.1 ready"])]);
    let slice_port = |n: u16| SlicePort::tcp(&format!("p{n}"), n);
    Arc::make_mut(&mut state.slices[0].1).ports = (1..=300).rev().map(slice_port).collect();
    let groups = EndpointGroups::of(&state);
    for n in [1, 5, 299, 300, 301] {
        let wanted = ServicePort::tcp(&format!("p{n}"), 80);
        let merged = groups.of_port(&wanted).merge();
        let found: Vec<_> = merged.iter().map(|c| c.text.to_string()).collect();
        let expected = (n <= 300).then(|| format!("10.0.0.1:{n}"));
        assert_eq!(found, Vec::from_iter(expected));
    }
}

#[test]
fn slices_beyond_the_limit_are_not_used() {
    let one = state_of(&[("s", 80, &["10.0.0.1 ready"])]);
    let (_, slice) = &one.slices[0];
    let names = (0..MAX_SLICES + 2).map(|n| SliceName::new("ns", &format!("s{n:06}")));
    let mut many = ServiceState {
        service: None,
        slices: names.map(|name| (name, Arc::clone(slice))).collect(),
        ..ServiceState::default()
    };
    let last = many.slices.last_mut().unwrap();
    last.1 = Arc::new(Slice {
        endpoints: Box::new([endpoint("10.0.0.2 ready")]),
        ..Slice::clone(slice)
    });
    let service = plain_service();
    let groups = EndpointGroups::of(&many);
    let endpoints = groups.of_port(&service.ports[0]);
    assert_eq!(endpoints.count(), MAX_SLICES);
    assert_eq!(endpoints.merge().len(), 1);
}
