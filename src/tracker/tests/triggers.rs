//! Which trigger times come true with a sync.
//!
//! Upstream: `pkg/proxy/endpointschangetracker_test.go`, `TestLastChangeTriggerTime` (v1.37)

use super::*;

/// The seconds that are measured once `changes` are in the kernel.
#[track_caller]
fn check<const C: usize>(changes: [Change; C], seconds: &[u64]) {
    let mut tracker = applied([slice("old", "a", &["10.0.0.9"], None)]);
    tell(&mut tracker, changes);
    let times = tracker.mark_applied().triggers;
    let expected = seconds.iter().map(|s| STARTED + Duration::from_secs(*s));
    assert_eq!(times, expected.collect::<Vec<_>>());
    assert!(tracker.mark_applied().triggers.is_empty(), "reported once");
}

#[test]
fn each_change_of_a_slice_is_measured_once() {
    let at = |called, of, second| slice(called, of, &["10.0.0.1"], Some(second));
    check([at("s", "b", 5)], &[5]);
    let three = [at("s", "b", 5), at("t", "b", 6), at("u", "c", 7)];
    check(three, &[5, 6, 7]);
    let again = slice("s", "b", &["10.0.0.2"], Some(6));
    check([at("s", "b", 5), again], &[5, 6]);
    check([at("s", "b", 5), at("s", "b", 6)], &[5]);
    check([slice("s", "b", &["10.0.0.1"], None)], &[]);
    check([service("b", 80), at("s", "b", 5)], &[5]);
}

#[test]
fn what_happened_before_the_start_is_not_measured() {
    check([slice("s", "b", &["10.0.0.1"], Some(0))], &[]);
}

#[test]
fn removals_are_not_measured_and_forget_what_was() {
    let at = |called, second| slice(called, "b", &["10.0.0.1"], Some(second));
    check([at("s", 5), no_slice("s")], &[]);
    check([at("s", 5), at("t", 6), no_slice("s")], &[]);
    check([at("s", 5), no_slice("s"), at("t", 7)], &[7]);
    check([no_slice("old")], &[]);
}

#[test]
fn a_relabelled_slice_is_measured_where_it_is_now() {
    check([slice("old", "b", &["10.0.0.9"], Some(5))], &[5]);
    let first = slice("s", "b", &["10.0.0.1"], Some(5));
    check([first, slice("s", "c", &["10.0.0.1"], Some(6))], &[6]);
}

#[test]
fn a_change_taken_back_is_not_measured() {
    let changed = slice("old", "a", &["10.0.0.1"], Some(5));
    check([changed, slice("old", "a", &["10.0.0.9"], Some(6))], &[]);
}

/// A sync that keeps failing leaves the Service dirty for as long.
#[test]
fn the_times_of_a_service_that_stays_dirty_are_bounded() {
    let mut tracker = applied([]);
    for second in 1..=5000 {
        let ip = format!("10.0.{}.1", second % 2);
        tell(&mut tracker, [slice("s", "b", &[&ip], Some(second))]);
    }
    let times = tracker.mark_applied().triggers;
    assert_eq!(times.len(), 1000);
    assert_eq!(times.first(), Some(&(STARTED + Duration::from_secs(1))));
}
