//! Which Services are dirty, and what is known of them.
//!
//! Upstream: `pkg/proxy/endpointschangetracker_test.go`, `TestCheckoutChanges`,
//! `TestEndpointSliceUpdate`; pkg/proxy/servicechangetracker_test.go,
//! `TestServiceCacheLeaks` (v1.37)

use super::*;
use crate::model::Services;
use crate::tracker::UnappliedObjects;

/// After the applied `history`, `changes` leave these Services dirty, and those known.
#[track_caller]
fn check<const H: usize, const C: usize>(
    history: [Change; H],
    changes: [Change; C],
    dirty: &[&str],
    known: &[&str],
) {
    let mut tracker = applied(history);
    tell(&mut tracker, changes);
    assert_eq!(shown(tracker.dirty()), dirty, "dirty");
    assert_eq!(tracker.pending(), dirty.len());
    assert_eq!(tracker.has_pending(), !dirty.is_empty());
    assert_eq!(shown(tracker.all().map(|(name, _)| name)), known, "known");
    tracker.mark_applied();
    assert!(!tracker.has_pending(), "applied");
}

fn shown<'a>(names: impl Iterator<Item = &'a ServiceName>) -> Vec<&'a str> {
    names.map(ServiceName::name).collect()
}

#[test]
fn services_come_change_and_go() {
    let (a, b) = (|port| service("a", port), |port| service("b", port));
    check([], [a(80)], &["a"], &["a"]);
    check([a(80)], [a(80)], &[], &["a"]);
    check([a(80)], [a(81)], &["a"], &["a"]);
    check([a(80)], [no_service("a")], &["a"], &[]);
    check([], [no_service("a")], &[], &[]);
    check([a(80), b(80)], [b(81)], &["b"], &["a", "b"]);
}

#[test]
fn what_is_changed_back_leaves_nothing() {
    let a = |port| service("a", port);
    check([], [a(80), no_service("a")], &[], &[]);
    check([a(80)], [a(81), a(80)], &[], &["a"]);
    check([a(80)], [no_service("a"), a(80)], &[], &["a"]);
    check([a(80)], [no_service("a"), a(81)], &["a"], &["a"]);
    let one = || slice("s", "a", &["10.0.0.1"], None);
    check([one()], [no_slice("s"), one()], &[], &["a"]);
    check([one()], [slice("s", "a", &[], None), one()], &[], &["a"]);
    check([], [one(), no_slice("s")], &[], &[]);
}

#[test]
fn slices_come_change_and_go() {
    let one = || slice("s", "a", &["10.0.0.1"], None);
    check([], [one()], &["a"], &["a"]);
    check([one()], [one()], &[], &["a"]);
    let more = slice("s", "a", &["10.0.0.1", "10.0.0.2"], None);
    check([one()], [more], &["a"], &["a"]);
    check([one()], [no_slice("s")], &["a"], &[]);
    check([one()], [no_slice("other")], &[], &["a"]);
    let second = slice("t", "a", &["10.0.0.2"], None);
    check([one(), second], [no_slice("s")], &["a"], &["a"]);
    check([one()], [service("a", 80)], &["a"], &["a"]);
    check([one(), service("a", 80)], [no_service("a")], &["a"], &["a"]);
}

#[test]
fn a_slice_belongs_to_the_service_its_label_names_now() {
    let of = |service| slice("s", service, &["10.0.0.1"], None);
    check([of("a")], [of("b")], &["a", "b"], &["b"]);
    check([of("a")], [of("b"), of("a")], &[], &["a"]);
    check([of("a")], [of("b"), of("c")], &["a", "c"], &["c"]);
    check([of("a")], [of("b"), no_slice("s")], &["a"], &[]);
    let mut tracker = applied([of("a"), of("b")]);
    tracker.apply(no_slice("s"));
    assert!(tracker.get(&name("a")).is_none() && tracker.get(&name("b")).is_none());
}

#[test]
fn slices_are_kept_by_name_whatever_order_they_come_in() {
    let parts = ["s2", "s1", "s3"].map(|called| slice(called, "a", &["10.0.0.1"], None));
    let tracker = applied(parts);
    let state = tracker.get(&name("a")).unwrap();
    let names = state.slices.iter().map(|(name, _)| name.to_string());
    assert_eq!(names.collect::<Vec<_>>(), ["ns/s1", "ns/s2", "ns/s3"]);
}

/// After each of the changes, so many Services and so many slices wait.
#[track_caller]
fn waits<const H: usize>(history: [Change; H], changes: &[(Change, usize, usize)]) {
    let mut tracker = applied(history);
    for (at, (change, services, slices)) in changes.iter().enumerate() {
        tracker.apply(change.clone());
        let expected = UnappliedObjects {
            services: *services,
            slices: *slices,
        };
        assert_eq!(tracker.unapplied(), expected, "after change {at}");
    }
    tracker.mark_applied();
    assert_eq!(tracker.unapplied(), UnappliedObjects::default());
}

#[test]
fn objects_of_each_kind_wait_apart() {
    let of = |called: &str, service: &str, ip: &str| slice(called, service, &[ip], None);
    let one = || of("s2", "a", "10.0.0.1");
    waits([], &[(service("a", 80), 1, 0), (one(), 1, 1)]);
    waits(
        [service("a", 80), one()],
        &[
            (service("a", 81), 1, 0),
            (of("s2", "a", "10.0.0.2"), 1, 1),
            (of("s1", "a", "10.0.0.3"), 1, 2),
            (of("s3", "a", "10.0.0.4"), 1, 3),
            // The same again is no further one.
            (of("s3", "a", "10.0.0.5"), 1, 3),
            (service("a", 80), 0, 3),
            (one(), 0, 2),
            (no_slice("s1"), 0, 1),
            (service("b", 80), 1, 1),
            (no_slice("s3"), 1, 0),
            (no_service("b"), 0, 0),
        ],
    );
    // From one Service to another.
    let moved = [(of("s2", "b", "10.0.0.1"), 0, 2), (no_slice("s2"), 0, 1)];
    waits([one()], &moved);
    let deleted = [(no_service("a"), 1, 0), (no_slice("s2"), 1, 1)];
    waits([one(), service("a", 80)], &deleted);
}

#[test]
fn nothing_may_be_synced_before_every_kind_has_listed() {
    let mut tracker = Tracker::new(STARTED);
    for kind in Kind::ALL {
        assert!(!tracker.has_listed_all());
        tracker.apply(Change::Listed(kind));
    }
    assert!(tracker.has_listed_all());
}

#[test]
fn a_node_that_is_made_anew_still_has_the_machines_addresses() {
    let mut tracker = applied([]);
    let node = |addresses: &[&str]| {
        Change::Node(Some(Box::new(Node {
            addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
            ..Node::default()
        })))
    };
    tracker.apply(node(&["192.0.2.1"]));
    tracker.apply(Change::Node(None));
    tracker.apply(node(&[]));
    assert_eq!(tracker.node().unwrap().addresses.len(), 1);
    tracker.apply(node(&["192.0.2.2"]));
    let now = tracker.node().unwrap().addresses[0];
    assert_eq!(now.to_string(), "192.0.2.2");
}

#[test]
fn the_state_before_is_returned_when_changes_are_applied() {
    let mut tracker = applied([service("a", 80), service("b", 80)]);
    let changes = [service("a", 81), service("a", 82), service("c", 80)];
    tell(&mut tracker, changes);
    let before = tracker.mark_applied().before;
    let ports = before.iter().map(|(name, state)| {
        let service = state.service.as_ref();
        (name.name(), service.map(|service| service.ports[0].port))
    });
    let expected = [("a", Some(port(80))), ("c", None)];
    assert_eq!(ports.collect::<Vec<_>>(), expected);
    assert!(tracker.mark_applied().before.is_empty());
}
