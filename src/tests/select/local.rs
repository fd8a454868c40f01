//! The number of endpoints that is reported to load balancers.
//!
//! Upstream: `pkg/proxy/endpointschangetracker_test.go`, `TestGetLocalEndpointIPs` (v1.37)

use super::*;

#[track_caller]
fn check(slices: &[(&str, u16, &[&str])], expected: usize) {
    assert_eq!(local_ready(&state_of(slices)), expected);
}

#[test]
fn only_ready_endpoints_of_this_node_count() {
    check(&[], 0);
    let all = [
        "10.0.0.1 ready here",
        "10.0.0.2 ready",
        "10.0.0.3 unready here",
        "10.0.0.4 serving terminating here",
        "10.0.0.5 ready here zone:b node:elsewhere",
    ];
    check(&[("s", 80, &all)], 2);
    check(&[("s", 80, &all[1..4])], 0);
}

#[test]
fn an_address_counts_once() {
    let here = ["10.0.0.1 ready here"];
    check(&[("s", 80, &here), ("t", 443, &here)], 1);
    // Which of two that disagree counts is as for the rules.
    let unready = ["10.0.0.1 unready here"];
    check(&[("s", 80, &here), ("t", 80, &unready)], 0);
    check(&[("s", 80, &unready), ("t", 80, &here)], 1);
    check(&[("s", 80, &here), ("t", 443, &unready)], 1);
}

#[test]
fn slices_without_ports_hold_nobody() {
    let mut state = state_of(&[("s", 80, &["10.0.0.1 ready here"])]);
    assert_eq!(local_ready(&state), 1);
    Arc::make_mut(&mut state.slices[0].1).ports = Box::default();
    assert_eq!(local_ready(&state), 0);
}
