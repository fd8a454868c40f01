//! Histories, in seconds; the sync period is 30 s, so patience ends after 60.

use std::time::{Duration, UNIX_EPOCH};

use super::{HealthState, NodeState};
use crate::clock::instant;
use crate::net::IpFamily::{self, V4, V6};

#[derive(Clone, Copy)]
enum Event {
    Queued(IpFamily),
    Began(IpFamily),
    Succeeded(IpFamily),
    Failed(IpFamily),
    GivenUp(IpFamily),
}

use Event::{Began, Failed, GivenUp, Queued, Succeeded};

/// Whether both families are healthy at a second, after what happened at seconds before.
#[track_caller]
fn check(events: &[(u64, Event)], at: u64, healthy: bool) {
    let zero = instant();
    let mut state = HealthState::new(Duration::from_secs(30));
    for (second, event) in events {
        let now = zero + Duration::from_secs(*second);
        match *event {
            Queued(family) => state.queued(family, now),
            Began(family) => state.began(family),
            Succeeded(family) => state.succeeded(family, UNIX_EPOCH + Duration::from_secs(*second)),
            Failed(family) => state.failed(family, now),
            GivenUp(family) => state.forget(family),
        }
    }
    let report = state.report(zero + Duration::from_secs(at));
    assert_eq!(report.healthy, healthy, "at {at}: {report:?}");
}

/// Checks that both are healthy until this second, in which one is not any more.
#[track_caller]
fn healthy_until(events: &[(u64, Event)], end: u64) {
    check(events, end - 1, true);
    check(events, end, false);
}

/// A sync that was asked for at 0 and ended at 2.
const SYNCED: [(u64, Event); 3] = [(0, Queued(V4)), (1, Began(V4)), (2, Succeeded(V4))];

#[test]
fn idle_is_healthy() {
    check(&[], 10_000, true);
    check(&SYNCED, 10_000, true);
}

/// As IPv6 is, if it was tried before it was known that this machine can do IPv4.
#[test]
fn a_family_that_is_given_up_does_not_count() {
    let both = [(0, Queued(V6)), (5, Queued(V4)), (6, Began(V4))];
    healthy_until(&[&both[..], &[(7, Succeeded(V4))]].concat(), 60);
    let without = [&both[..], &[(7, GivenUp(V6)), (7, Succeeded(V4))]];
    check(&without.concat(), 10_000, true);
}

#[test]
fn patience_is_twice_the_period() {
    let again = [(100, Queued(V4)), (130, Queued(V4))];
    healthy_until(&[&SYNCED[..], &again].concat(), 160);
}

#[test]
fn a_running_sync_is_not_done() {
    healthy_until(&[(0, Queued(V4)), (1, Began(V4))], 60);
}

#[test]
fn a_success_settles_only_what_it_took() {
    let taken = [(0, Queued(V4)), (1, Began(V4))];
    let later = [(5, Queued(V4)), (50, Succeeded(V4))];
    healthy_until(&[taken, later].concat(), 65);
}

#[test]
fn a_failure_keeps_the_oldest_request() {
    let taken = [(0, Queued(V4)), (1, Began(V4))];
    let later = [(5, Queued(V4)), (50, Failed(V4)), (51, Began(V4))];
    healthy_until(&[&taken[..], &later].concat(), 60);
}

#[test]
fn a_failure_nobody_asked_for_counts_from_then() {
    let one = [(500, Began(V4)), (510, Failed(V4))];
    let two = [(520, Began(V4)), (525, Failed(V4))];
    healthy_until(&[&SYNCED[..], &one, &two].concat(), 570);
}

#[test]
fn a_first_sync_that_never_succeeds_is_not_healthy_for_ever() {
    healthy_until(&[(0, Queued(V4)), (1, Began(V4)), (2, Failed(V4))], 60);
    // Nor is one that never began.
    healthy_until(&[(0, Queued(V4))], 60);
}

#[test]
fn an_unreported_end_settles_nothing() {
    healthy_until(&[(0, Queued(V4)), (1, Began(V4)), (30, Began(V4))], 60);
}

#[test]
fn one_family_is_enough_to_be_unhealthy() {
    healthy_until(&[&[(0, Queued(V6))], &SYNCED[..]].concat(), 60);
    let recovered = [(0, Queued(V6)), (90, Began(V6)), (95, Succeeded(V6))];
    check(&recovered, 96, true);
}

#[test]
fn only_a_node_that_stays_is_eligible() {
    let mut state = HealthState::new(Duration::from_secs(30));
    let now = instant();
    assert!(!state.report(now).node_eligible);
    state.node(NodeState::Eligible);
    assert!(state.report(now).node_eligible);
    state.node(NodeState::Leaving);
    assert!(!state.report(now).node_eligible);
    assert_eq!(state.report(now).families.v4, None);
}
