//! Changes that wait leave the tracker where all events, one by one, would have.

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::proptest;

use std::collections::BTreeMap;

use super::*;
use crate::model::{ServiceState, Services, SourceChange};
use crate::tracker::ChangeQueue;

/// What is taken after `before` was taken and `changes` have been added.
fn taken(before: impl IntoIterator<Item = Change>, changes: &[Change]) -> Vec<Change> {
    let changes = changes.iter().cloned();
    taken_from_source(before, changes.map(SourceChange::from))
}

fn taken_from_source(
    before: impl IntoIterator<Item = Change>,
    changes: impl IntoIterator<Item = SourceChange>,
) -> Vec<Change> {
    let mut queue = ChangeQueue::default();
    for change in before {
        queue.push(change.into());
    }
    queue.take();
    for change in changes {
        queue.push(change);
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
    let all = [old.clone(), one.clone(), two.clone()];
    assert_eq!(waits(&[], &all), Some(5));
    // What a list repeats has been measured.
    let listed = [old.clone()];
    assert_eq!(waits(&listed, &[old.clone(), one.clone()]), Some(6));
    assert_eq!(waits(&listed, &listed), Some(5));
    assert_eq!(waits(&[old], &[one.clone(), no_slice("s"), two]), Some(7));
    let elsewhere = slice("s", "b", &["10.0.0.2"], Some(8));
    assert_eq!(waits(&[], &[one, elsewhere]), Some(8));
}

/// A change out of a number, of few objects, so that they meet.
fn change(number: u64) -> SourceChange {
    let pick = |at: u32, of: u64| usize::try_from((number >> at) % of).unwrap();
    let (of, called) = (["a", "b", "c"][pick(8, 3)], ["s", "t", "u"][pick(16, 3)]);
    let kind = Kind::ALL[pick(24, 3)];
    let version = u16::try_from(pick(32, 3)).unwrap();
    let nodes = [
        zone(None),
        zone(Some("a")),
        zone(Some("b")),
        Change::Node(None),
    ];
    let change = match pick(0, 12) {
        0..=1 => service(of, 80 + version),
        2 => no_service(of),
        3..=5 => {
            let second = (version > 0).then_some(u64::from(version));
            slice(called, of, &[["10.0.0.1", "10.0.0.2"][pick(40, 2)]], second)
        }
        6 => no_slice(called),
        7 => return SourceChange::ServiceKept(name(of)),
        8 => return SourceChange::SliceKept(SliceName::new("ns", called)),
        9 => nodes[pick(40, 4)].clone(),
        10 => return SourceChange::Listing(kind),
        _ => Change::Listed(kind),
    };
    change.into()
}

/// A tracker that has every change at once, and what a list does to it.
struct Reference {
    tracker: Tracker,
    /// Objects that exist, and whether the last list that began has had them.
    services: BTreeMap<ServiceName, bool>,
    slices: BTreeMap<SliceName, bool>,
}

impl Reference {
    fn apply(&mut self, change: SourceChange) {
        match change {
            SourceChange::Listing(Kind::Service) => {
                self.services.values_mut().for_each(|seen| *seen = false);
            }
            SourceChange::Listing(Kind::EndpointSlice) => {
                self.slices.values_mut().for_each(|seen| *seen = false);
            }
            SourceChange::Listing(Kind::Node) => {}
            SourceChange::ServiceKept(name) => {
                self.services.entry(name).and_modify(|seen| *seen = true);
            }
            SourceChange::SliceKept(name) => {
                self.slices.entry(name).and_modify(|seen| *seen = true);
            }
            SourceChange::Change(change) => {
                self.note(&change);
                self.tracker.apply(change);
            }
        }
    }

    fn note(&mut self, change: &Change) {
        match change {
            Change::Service(name, Some(_)) => drop(self.services.insert(name.clone(), true)),
            Change::Service(name, None) => drop(self.services.remove(name)),
            Change::Slice(name, Some(_), _) => drop(self.slices.insert(name.clone(), true)),
            Change::Slice(name, None, _) => drop(self.slices.remove(name)),
            Change::Listed(Kind::Service) => {
                for (name, _) in self.services.extract_if(.., |_, seen| !*seen) {
                    self.tracker.apply(Change::Service(name, None));
                }
            }
            Change::Listed(Kind::EndpointSlice) => {
                for (name, _) in self.slices.extract_if(.., |_, seen| !*seen) {
                    self.tracker.apply(Change::Slice(name, None, None));
                }
            }
            Change::Listed(Kind::Node) | Change::Node(_) => {}
        }
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
        let mut queued = Tracker::new(STARTED);
        let mut reference = Reference {
            tracker: Tracker::new(STARTED),
            services: BTreeMap::new(),
            slices: BTreeMap::new(),
        };
        for number in numbers.into_iter().chain([0]) {
            let change = change(number);
            let is_counted = match &change {
                SourceChange::Change(Change::Service(..)) => Some(Kind::Service),
                SourceChange::Change(Change::Slice(name, slice, _)) => {
                    let is_known = slice.is_some() || reference.slices.contains_key(name);
                    is_known.then_some(Kind::EndpointSlice)
                }
                _ => None,
            };
            assert_eq!(queue.push(change.clone()), is_counted);
            reference.apply(change);
            let whole = &mut reference.tracker;
            if number.is_multiple_of(7) {
                tell(&mut queued, queue.take());
                assert_eq!(states(whole), states(&queued));
                assert_eq!(whole.node(), queued.node());
                assert_eq!(whole.has_listed_all(), queued.has_listed_all());
                assert!(whole.dirty().eq(queued.dirty()));
                if number.is_multiple_of(21) {
                    assert_eq!(whole.mark_applied().before, queued.mark_applied().before);
                }
            }
        }
    }
}
