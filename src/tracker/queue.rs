//! Queue of changes, with at most one for each object however many events arrive.
//!
//! A sync reads the [`Tracker`](super::Tracker) until its restore ends, and changes wait here: a
//! restore that hangs must not take memory for every event.
//!
//! # Invariants
//!
//! - The changes that are taken lead to the same state of a tracker as all events one by one.
//! - Memory is linear in the number of objects: those that exist, and those whose removal waits.
//! - Lists are resolved here: a list may be repeated at any time, and until it is complete the
//!   objects before it stay. The tracker gets a removal of each object that was not in it.

use std::hash::Hash;
use std::time::SystemTime;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::model::{Change, Kind, Node, Service, ServiceName, Slice, SliceName, SourceChange};

/// Number of a list. Each object has that of the list in which it was last seen.
type ListNumber = u32;

/// Changes of one family that wait for the tracker.
#[derive(Debug, Default)]
pub(crate) struct ChangeQueue {
    services: Objects<ServiceName, Service>,
    slices: Objects<SliceName, Slice>,
    node: NodeQueue,
    /// Kinds whose list is complete.
    listed: Vec<Kind>,
    /// Number of changes so far, for the order of those that wait.
    arrived: u64,
}

/// Changes of the Node object.
#[derive(Debug, Default)]
struct NodeQueue {
    /// Last state, with its position in the order.
    set: Option<(u64, Box<Node>)>,
    /// Position of a removal after it.
    removed: Option<u64>,
}

impl ChangeQueue {
    /// Adds a change in place of an earlier one of the same object. Returns the kind of the object
    /// that changed, for counting; `None` for the Node, for the start and the end of a list, for an
    /// object that is kept, and for the removal of a slice that this family never had.
    pub(crate) fn push(&mut self, change: SourceChange) -> Option<Kind> {
        self.arrived += 1;
        match change {
            SourceChange::Listing(kind) => self.begin(kind),
            SourceChange::Change(change) => return self.push_change(change),
            SourceChange::ServiceKept(name) => self.services.keep(&name),
            SourceChange::SliceKept(name) => self.slices.keep(&name),
        }
        None
    }

    fn push_change(&mut self, change: Change) -> Option<Kind> {
        let at = self.arrived;
        match change {
            Change::Service(name, service) => {
                match service {
                    Some(service) => self.services.set(at, name, (service, None), |_, _| true),
                    None => drop(self.services.remove(at, &name)),
                }
                return Some(Kind::Service);
            }
            Change::Slice(name, Some(slice), trigger) => {
                self.slices
                    .set(at, name, (slice, trigger), is_of_one_service);
                return Some(Kind::EndpointSlice);
            }
            Change::Slice(name, None, _) => {
                let was_known = self.slices.remove(at, &name);
                return was_known.then_some(Kind::EndpointSlice);
            }
            Change::Node(node) => self.node.push(at, node),
            Change::Listed(kind) => self.complete(kind),
        }
        None
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.services.is_empty()
            && self.slices.is_empty()
            && self.node.set.is_none()
            && self.node.removed.is_none()
            && self.listed.is_empty()
    }

    /// Takes all changes: objects in the order of their last events, and a removal before the
    /// object that was created after it.
    pub(crate) fn take(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, pending) in self.services.take() {
            changes.push((pending.at, Change::Service(name, pending.value)));
        }
        for (name, pending) in self.slices.take() {
            let PendingObject {
                at, value, trigger, ..
            } = pending;
            if pending.is_new_object {
                changes.push((at, Change::Slice(name.clone(), None, None)));
            }
            changes.push((at, Change::Slice(name, value, trigger.time())));
        }
        let node = std::mem::take(&mut self.node);
        changes.extend(node.set.map(|(at, node)| (at, Change::Node(Some(node)))));
        changes.extend(node.removed.map(|at| (at, Change::Node(None))));
        // Stable: a removal stays before the new object at the same position.
        changes.sort_by_key(|(at, _)| *at);
        let listed = std::mem::take(&mut self.listed);
        let changes = changes.into_iter().map(|(_, change)| change);
        changes
            .chain(listed.into_iter().map(Change::Listed))
            .collect()
    }

    fn begin(&mut self, kind: Kind) {
        match kind {
            Kind::Service => self.services.begin_list(),
            Kind::EndpointSlice => self.slices.begin_list(),
            Kind::Node => {}
        }
    }

    fn complete(&mut self, kind: Kind) {
        match kind {
            Kind::Service => self.services.complete_list(self.arrived),
            Kind::EndpointSlice => self.slices.complete_list(self.arrived),
            Kind::Node => {}
        }
        if !self.listed.contains(&kind) {
            self.listed.push(kind);
        }
    }
}

impl NodeQueue {
    /// Adds a change. A new Node without addresses has those of the one before, as in the tracker.
    fn push(&mut self, at: u64, node: Option<Box<Node>>) {
        if let Some(mut node) = node {
            if let Some((_, earlier)) = self.set.take()
                && node.addresses.is_empty()
            {
                node.addresses = earlier.addresses;
            }
            self.set = Some((at, node));
            self.removed = None;
        } else {
            self.removed = Some(at);
        }
    }
}

/// Reports whether a slice still belongs to the same Service, so that its trigger time counts.
fn is_of_one_service(earlier: &Slice, now: &Slice) -> bool {
    earlier.service == now.service
}

/// Last change of one object.
#[derive(Debug)]
struct PendingObject<V> {
    /// Position in the order of all changes.
    at: u64,
    /// Object; `None` if it is gone.
    value: Option<Box<V>>,
    /// Trigger time; of several changes that wait the oldest, which gives the longest latency.
    trigger: TriggerTime,
    /// An object of this name was removed before it.
    is_new_object: bool,
}

/// Trigger time of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TriggerTime {
    /// The object has none.
    None,
    /// Time that the object had before the change, as in a repeated list.
    Repeated(SystemTime),
    /// Time that latency is measured from.
    New(SystemTime),
}

impl TriggerTime {
    const fn time(self) -> Option<SystemTime> {
        match self {
            Self::None => None,
            Self::Repeated(at) | Self::New(at) => Some(at),
        }
    }
}

/// Object that exists.
#[derive(Debug)]
struct KnownObject {
    seen: ListNumber,
    /// The tracker has an object of this name.
    is_taken: bool,
    trigger: Option<SystemTime>,
}

/// Objects of one kind.
#[derive(Debug)]
struct Objects<N, V> {
    known: HashMap<N, KnownObject>,
    pending: HashMap<N, PendingObject<V>>,
    /// Last list that began.
    list: ListNumber,
}

impl<N, V> Default for Objects<N, V> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            pending: HashMap::new(),
            list: 0,
        }
    }
}

impl<N: Clone + Eq + Hash + Ord, V> Objects<N, V> {
    /// Sets an object. The trigger time of an earlier change that waits stays if `is_continued`
    /// reports that both count as one change.
    fn set(
        &mut self,
        at: u64,
        name: N,
        (value, trigger): (Box<V>, Option<SystemTime>),
        is_continued: impl FnOnce(&V, &V) -> bool,
    ) {
        let earlier = self.pending.remove(&name);
        let is_removed = earlier.as_ref().is_some_and(|it| it.value.is_none());
        let is_new_object = is_removed || earlier.as_ref().is_some_and(|it| it.is_new_object);
        let mut time = trigger.map_or(TriggerTime::None, TriggerTime::New);
        match self.known.entry(name.clone()) {
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.seen = self.list;
                if let (TriggerTime::New(at), true) = (time, known.trigger == trigger) {
                    time = TriggerTime::Repeated(at);
                }
                known.trigger = trigger;
            }
            Entry::Vacant(place) => {
                place.insert(KnownObject {
                    seen: self.list,
                    is_taken: is_removed,
                    trigger,
                });
            }
        }
        if let Some(earlier) = earlier
            && let TriggerTime::New(_) = earlier.trigger
            && earlier.value.is_some_and(|old| is_continued(&old, &value))
        {
            time = earlier.trigger;
        }
        let pending = PendingObject {
            at,
            value: Some(value),
            trigger: time,
            is_new_object,
        };
        self.pending.insert(name, pending);
    }

    /// Removes an object; reports whether it existed.
    fn remove(&mut self, at: u64, name: &N) -> bool {
        let Some(known) = self.known.remove(name) else {
            return false;
        };
        if known.is_taken {
            let gone = PendingObject {
                at,
                value: None,
                trigger: TriggerTime::None,
                is_new_object: false,
            };
            self.pending.insert(name.clone(), gone);
        } else {
            self.pending.remove(name);
        }
        true
    }

    /// Notes that an object exists and keeps its last known state.
    fn keep(&mut self, name: &N) {
        if let Some(known) = self.known.get_mut(name) {
            known.seen = self.list;
        }
    }

    /// Begins a list; an unfinished one before it has no effect.
    fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// Ends a list: objects that were not in it are removed.
    fn complete_list(&mut self, at: u64) {
        let list = self.list;
        let unseen = self.known.iter().filter(|(_, known)| known.seen != list);
        let unseen: Vec<N> = unseen.map(|(name, _)| name.clone()).collect();
        for name in unseen {
            self.remove(at, &name);
        }
    }

    fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes all changes, sorted by name.
    fn take(&mut self) -> Vec<(N, PendingObject<V>)> {
        let mut taken: Vec<_> = std::mem::take(&mut self.pending).into_iter().collect();
        for (name, pending) in &taken {
            if pending.value.is_some()
                && let Some(known) = self.known.get_mut(name)
            {
                known.is_taken = true;
            }
        }
        taken.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        taken
    }
}
