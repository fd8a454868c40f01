//! Retry schedule of quarantined Services, and the forms in which they are rendered.

use super::*;
use crate::clock::instant;
use crate::model::Service;

fn name(text: &str) -> ServiceName {
    ServiceName::new("ns", text)
}

/// A Service whose cluster IP ends in this number.
fn state(number: u8) -> ServiceState {
    let service = Service::plain([10, 96, 0, number].into(), Box::default());
    ServiceState {
        service: Some(service.into()),
        ..ServiceState::default()
    }
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Seconds of the retries of a Service that never succeeds, if each takes this long.
fn tries(took: Duration, until: u64) -> Vec<u64> {
    let (zero, mut quarantine) = (instant(), Quarantine::default());
    quarantine.add(&name("a"), None, state(1), zero);
    let due = (0..until).filter(|second| {
        let now = zero + seconds(*second);
        let due = quarantine.due(now);
        if let Some(name) = &due {
            quarantine.failed(name, state(1), took, now);
        }
        due.is_some()
    });
    due.collect()
}

#[test]
fn retries_come_at_growing_intervals() {
    let expected = [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1623, 2223, 2823];
    assert_eq!(tries(Duration::ZERO, 3000), expected);
}

#[test]
fn retries_that_hang_take_a_tenth_of_the_time() {
    assert_eq!(tries(seconds(30), 1500), [1, 301, 601, 901, 1201]);
}

#[test]
fn a_changed_service_is_tried_again_soon() {
    let (zero, mut quarantine) = (instant(), Quarantine::default());
    let at = |second| zero + seconds(second);
    quarantine.add(&name("a"), None, state(1), zero);
    quarantine.failed(&name("a"), state(1), Duration::ZERO, at(100));
    assert_eq!(quarantine.next_retry(), Some(at(102)));
    let changed = state(2);
    quarantine.note_changes(|_| Some(&changed));
    assert_eq!(quarantine.next_retry(), Some(at(101)));
    // A deleted one at once: its rules are only deleted.
    quarantine.note_changes(|_| None);
    assert_eq!(quarantine.next_retry(), Some(at(100)));
    let same = state(1);
    quarantine.note_changes(|_| Some(&same));
    assert_eq!(quarantine.next_retry(), Some(at(102)));
    // One that hangs takes a third of the time at most.
    quarantine.failed(&name("a"), state(1), seconds(30), at(200));
    quarantine.note_changes(|_| Some(&changed));
    assert_eq!(quarantine.next_retry(), Some(at(260)));
}

#[test]
fn a_deleted_service_is_tried_at_once_and_then_like_others() {
    let (zero, mut quarantine) = (instant(), Quarantine::default());
    let at = |second| zero + seconds(second);
    quarantine.add(&name("a"), None, state(1), zero);
    quarantine.note_changes(|_| None);
    assert_eq!(quarantine.due(at(1)), Some(name("a")));
    // A node fault: it takes a third of the time at most.
    quarantine.postpone(&name("a"), seconds(3), at(4));
    quarantine.note_changes(|_| None);
    assert_eq!(quarantine.next_retry(), Some(at(10)));
    quarantine.failed(&name("a"), ServiceState::default(), Duration::ZERO, at(10));
    quarantine.note_changes(|_| None);
    assert_eq!(quarantine.next_retry(), Some(at(12)));
}

/// It shows nothing about the change, which is retried soon.
#[test]
fn a_node_fault_during_a_retry_is_no_failure_of_the_service() {
    let (zero, mut quarantine) = (instant(), Quarantine::default());
    quarantine.add(&name("a"), None, state(1), zero);
    let changed = state(2);
    for second in [100, 200, 300] {
        let at = zero + seconds(second);
        quarantine.note_changes(|_| Some(&changed));
        quarantine.postpone(&name("a"), Duration::ZERO, at);
        assert_eq!(quarantine.next_retry(), Some(at + seconds(1)));
    }
}

#[test]
fn the_service_that_has_waited_longest_is_tried_first() {
    let (zero, mut quarantine) = (instant(), Quarantine::default());
    quarantine.add(&name("b"), None, state(1), zero);
    quarantine.add(&name("a"), None, state(1), zero + seconds(2));
    assert_eq!(quarantine.due(zero), None);
    assert_eq!(quarantine.due(zero + seconds(1)), Some(name("b")));
    assert_eq!(quarantine.due(zero + seconds(60)), Some(name("b")));
    let was = quarantine.remove(&name("b"), zero + seconds(60));
    assert_eq!(was, seconds(60));
    assert_eq!(quarantine.due(zero + seconds(60)), Some(name("a")));
}

#[test]
fn each_form_is_followed_by_a_smaller_one() {
    let (zero, mut quarantine) = (instant(), Quarantine::default());
    let (old, new) = (name("old"), name("new"));
    let rendered = quarantine.add(&old, Some(state(1)), state(2), zero);
    assert_eq!(quarantine.fallback(&old), Some(Fallback::LastApplied));
    assert_eq!(rendered, state(1));
    let rendered = quarantine.add(&new, None, state(3), zero);
    assert_eq!(quarantine.fallback(&new), Some(Fallback::NoEndpoints));
    assert_eq!(rendered, state(3));
    assert_eq!(quarantine.lower(&old, &state(1)), state(1));
    assert_eq!(quarantine.fallback(&old), Some(Fallback::NoEndpoints));
    assert_eq!(quarantine.lower(&new, &rendered), ServiceState::default());
    assert_eq!(quarantine.fallback(&new), Some(Fallback::NoRules));
}

/// The frontend was lost to another Service, which does not fix the quarantined one.
#[test]
fn a_lost_frontend_is_not_a_change() {
    let (zero, mut quarantine) = (instant(), Quarantine::default());
    let mut lost = state(1);
    let port = crate::net::Port::new(80).unwrap();
    let frontend = crate::model::Frontend::HealthCheck(port);
    lost.lost.insert(crate::model::PortFrontend {
        port_index: 0,
        frontend,
    });
    quarantine.add(&name("a"), None, lost.clone(), zero);
    let is_same = state(1);
    quarantine.note_changes(|_| Some(&is_same));
    quarantine.failed(&name("a"), lost, Duration::ZERO, zero + seconds(10));
    quarantine.note_changes(|_| Some(&is_same));
    assert_eq!(quarantine.next_retry(), Some(zero + seconds(12)));
}

#[test]
fn each_service_is_retried_although_all_of_them_hang() {
    let (zero, mut quarantine) = (instant(), Quarantine::default());
    let names = ["a", "b", "c", "d"].map(name);
    for one in &names {
        quarantine.add(one, None, state(1), zero);
    }
    let mut retries = [0; 4];
    for second in 0..6000 {
        let now = zero + seconds(second);
        if let Some(due) = quarantine.due(now) {
            quarantine.failed(&due, state(1), seconds(30), now);
            retries[names.iter().position(|one| *one == due).unwrap()] += 1;
        }
    }
    assert!(retries.iter().all(|count| *count >= 4), "{retries:?}");
}
