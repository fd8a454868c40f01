//! Histories, in seconds; the sync period is 30 s, so patience ends after 60.

use std::time::{Duration, Instant, UNIX_EPOCH};

use super::{HealthState, NodeState};
use crate::net::IpFamily::{self, V4, V6};

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
    let zero = Instant::now_for_tests();
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

trait NowForTests {
    fn now_for_tests() -> Self;
}

impl NowForTests for Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "any instant will do; only differences count"
    )]
    fn now_for_tests() -> Self {
        Self::now()
    }
}

#[test]
fn idle_is_healthy() {
    check(&[], 10_000, true);
    let idle = [(0, Queued(V4)), (1, Began(V4)), (2, Succeeded(V4))];
    check(&idle, 10_000, true);
}

/// As IPv6 is, if it was tried before it was known that this machine can do IPv4.
#[test]
fn a_family_that_is_given_up_does_not_count() {
    let both = || vec![(0, Queued(V6)), (5, Queued(V4)), (6, Began(V4))];
    let done = |mut events: Vec<_>| {
        events.push((7, Succeeded(V4)));
        events
    };
    check(&done(both()), 60, false);
    let mut without = both();
    without.push((5, GivenUp(V6)));
    check(&done(without), 10_000, true);
}

#[test]
fn patience_is_twice_the_period() {
    let queued = || {
        [
            (0, Queued(V4)),
            (1, Began(V4)),
            (2, Succeeded(V4)),
            (100, Queued(V4)),
            (130, Queued(V4)),
        ]
    };
    check(&queued(), 159, true);
    check(&queued(), 160, false);
}

#[test]
fn a_running_sync_is_not_done() {
    let events = || [(0, Queued(V4)), (1, Began(V4))];
    check(&events(), 59, true);
    check(&events(), 60, false);
}

#[test]
fn a_success_settles_only_what_it_took() {
    let events = || {
        [
            (0, Queued(V4)),
            (1, Began(V4)),
            (5, Queued(V4)),
            (50, Succeeded(V4)),
        ]
    };
    check(&events(), 64, true);
    check(&events(), 65, false);
}

#[test]
fn a_failure_keeps_the_oldest_request() {
    let events = || {
        [
            (0, Queued(V4)),
            (1, Began(V4)),
            (5, Queued(V4)),
            (50, Failed(V4)),
            (51, Began(V4)),
        ]
    };
    check(&events(), 59, true);
    check(&events(), 60, false);
}

#[test]
fn a_failure_nobody_asked_for_counts_from_then() {
    let events = || {
        [
            (0, Queued(V4)),
            (0, Began(V4)),
            (1, Succeeded(V4)),
            (500, Began(V4)),
            (510, Failed(V4)),
            (520, Began(V4)),
            (525, Failed(V4)),
        ]
    };
    check(&events(), 569, true);
    check(&events(), 570, false);
}

#[test]
fn a_first_sync_that_never_succeeds_is_not_healthy_for_ever() {
    let events = || [(0, Queued(V4)), (1, Began(V4)), (2, Failed(V4))];
    check(&events(), 59, true);
    check(&events(), 60, false);
    // Nor is one that never began.
    check(&[(0, Queued(V4))], 60, false);
}

#[test]
fn an_unreported_end_settles_nothing() {
    let events = || [(0, Queued(V4)), (1, Began(V4)), (30, Began(V4))];
    check(&events(), 60, false);
}

#[test]
fn one_family_is_enough_to_be_unhealthy() {
    let events = || {
        [
            (0, Queued(V6)),
            (1, Queued(V4)),
            (2, Began(V4)),
            (3, Succeeded(V4)),
        ]
    };
    check(&events(), 59, true);
    check(&events(), 60, false);
    let recovered = [(0, Queued(V6)), (90, Began(V6)), (95, Succeeded(V6))];
    check(&recovered, 96, true);
}

#[test]
fn only_a_node_that_stays_is_eligible() {
    let mut state = HealthState::new(Duration::from_secs(30));
    let now = Instant::now_for_tests();
    assert!(!state.report(now).node_eligible);
    state.node(NodeState::Eligible);
    assert!(state.report(now).node_eligible);
    state.node(NodeState::Leaving);
    assert!(!state.report(now).node_eligible);
    assert_eq!(state.report(now).families.v4, None);
}
