//! Changes that wait leave the tracker where all events, one by one, would have.

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::proptest;

use super::*;
use crate::model::{ServiceState, Services};
use crate::tracker::ChangeQueue;

/// What is taken after `before` was taken and `changes` have been added.
fn taken(before: impl IntoIterator<Item = Change>, changes: &[Change]) -> Vec<Change> {
    let mut queue = ChangeQueue::default();
    for change in before {
        queue.push(change);
    }
    queue.take();
    for change in changes {
        queue.push(change.clone());
    }
    let taken = queue.take();
    assert!(queue.is_empty() && queue.take().is_empty(), "taken once");
    taken
}

#[test]
fn the_last_state_of_each_object_is_taken() {
    let many = |of: &str| (1..=60).map(|port| service(of, port)).collect::<Vec<_>>();
    let both = [many("a"), many("b")].concat();
    assert_eq!(taken([], &both), [service("a", 60), service("b", 60)]);
    let versions = (1..=60_u8).map(|n| slice("s", "a", &[&format!("10.0.0.{n}")], None));
    let versions: Vec<_> = versions.collect();
    assert_eq!(taken([], &versions), versions[59..]);
    let nodes = [zone(Some("a")), zone(Some("b")), Change::Node(None)];
    assert_eq!(taken([], &nodes), nodes[1..], "its zone outlives it");
}

#[test]
fn objects_that_come_and_go_leave_nothing() {
    let [a, s] = [service("a", 80), slice("s", "a", &["10.0.0.1"], None)];
    let both = [a.clone(), s.clone(), no_slice("s"), no_service("a")];
    assert_eq!(taken([], &both), []);
    assert_eq!(taken([], &[no_slice("s"), no_service("a")]), []);
    let gone = [no_slice("s"), no_service("a")];
    assert_eq!(taken([a.clone(), s.clone()], &gone), gone);
    let anew = [no_slice("s"), s.clone(), no_slice("s"), s.clone()];
    let removed_first = [no_slice("s"), s.clone()];
    assert_eq!(taken([s.clone()], &anew), removed_first);
    assert_eq!(taken([s.clone()], &anew[..3]), [no_slice("s")]);
    assert_eq!(taken([a.clone()], &[no_service("a"), a.clone()]), [a]);
}

#[test]
fn a_list_is_taken_as_the_changes_that_it_means() {
    let kind = Kind::Service;
    let listed = list(kind, [service("a", 81)]);
    let before = [service("a", 80), service("b", 80)];
    let means = [service("a", 81), no_service("b"), Change::Listed(kind)];
    assert_eq!(taken(before.clone(), &listed), means);
    // An unreadable object exists, and an unfinished list counts for nothing.
    let kept = list(kind, [Change::ServiceKept(name("b")), service("a", 81)]);
    let means = [service("a", 81), Change::Listed(kind)];
    assert_eq!(taken(before.clone(), &kept), means);
    let cut = [Change::Listing(kind), service("b", 80)];
    let means = [service("b", 80), service("a", 81), Change::Listed(kind)];
    let twice = [&cut[..], &kept].concat();
    assert_eq!(taken(before.clone(), &twice), means);
    let again = [list(kind, []), list(kind, before.clone())].concat();
    let means = [service("a", 80), service("b", 80), Change::Listed(kind)];
    assert_eq!(taken(before, &again), means);
}

#[test]
fn latency_is_measured_from_the_oldest_change_that_waits() {
    let at = |ip: &str, second| slice("s", "a", &[ip], Some(second));
    let waits = |before: &[Change], changes: &[Change]| {
        let taken = taken(before.to_vec(), changes);
        let Some(Change::Slice(_, _, trigger)) = taken.last() else {
            panic!("{taken:?}")
        };
        trigger.map(|at| at.duration_since(STARTED).unwrap().as_secs())
    };
    let [old, one, two] = [at("10.0.0.1", 5), at("10.0.0.2", 6), at("10.0.0.3", 7)];
    assert_eq!(
        waits(&[], &[old.clone(), one.clone(), two.clone()]),
        Some(5)
    );
    // What a list repeats has been measured.
    let listed = [old.clone()];
    assert_eq!(waits(&listed, &[old.clone(), one.clone()]), Some(6));
    assert_eq!(waits(&listed, &listed), Some(5));
    assert_eq!(waits(&[old], &[one.clone(), no_slice("s"), two]), Some(7));
    let elsewhere = slice("s", "b", &["10.0.0.2"], Some(8));
    assert_eq!(waits(&[], &[one, elsewhere]), Some(8));
}

/// A change out of a number, of few objects, so that they meet.
fn change(number: u64) -> Change {
    let pick = |at: u32, of: u64| usize::try_from((number >> at) % of).unwrap();
    let (of, called) = (["a", "b", "c"][pick(8, 3)], ["s", "t", "u"][pick(16, 3)]);
    let kind = [Kind::Service, Kind::EndpointSlice, Kind::Node][pick(24, 3)];
    let version = u16::try_from(pick(32, 3)).unwrap();
    match pick(0, 12) {
        0..=1 => service(of, 80 + version),
        2 => no_service(of),
        3..=5 => {
            let second = (version > 0).then_some(u64::from(version));
            slice(called, of, &[["10.0.0.1", "10.0.0.2"][pick(40, 2)]], second)
        }
        6 => no_slice(called),
        7 => Change::ServiceKept(name(of)),
        8 => Change::SliceKept(SliceName::new("ns", called)),
        9 => [
            zone(None),
            zone(Some("a")),
            zone(Some("b")),
            Change::Node(None),
        ][pick(40, 4)]
        .clone(),
        10 => Change::Listing(kind),
        _ => Change::Listed(kind),
    }
}

fn states(tracker: &Tracker) -> Vec<(ServiceName, ServiceState)> {
    let all = tracker.all();
    all.map(|(name, state)| (name.clone(), state.clone()))
        .collect()
}

proptest! {
    /// Some of the numbers take what waits, and some of these also mark it as applied.
    #[test]
    fn what_is_taken_ends_where_every_event_ends(numbers in vec(any::<u64>(), 0..120)) {
        let mut queue = ChangeQueue::default();
        let [mut whole, mut queued] = [(); 2].map(|()| Tracker::new(STARTED));
        for number in numbers.into_iter().chain([0]) {
            let change = change(number);
            let is_counted = match &change {
                Change::Service(..) => Some(Kind::Service),
                Change::Slice(name, None, _) if !whole.has_slice(name) => None,
                Change::Slice(..) => Some(Kind::EndpointSlice),
                _ => None,
            };
            assert_eq!(queue.push(change.clone()), is_counted);
            whole.apply(change);
            if number.is_multiple_of(7) {
                tell(&mut queued, queue.take());
                assert_eq!(states(&whole), states(&queued));
                assert_eq!(whole.node(), queued.node());
                assert_eq!(whole.is_synced(), queued.is_synced());
                assert!(whole.dirty().eq(queued.dirty()));
                if number.is_multiple_of(21) {
                    assert_eq!(whole.mark_applied().before, queued.mark_applied().before);
                }
            }
        }
    }
}
