//! Objects of one kind in a [`ChangeQueue`](super::ChangeQueue): the names of those that exist,
//! and the changes that wait.

use std::hash::Hash;
use std::time::SystemTime;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::listing::Round;

/// Last change of one object.
#[derive(Debug)]
pub(super) struct PendingObject<V> {
    /// Position in the order of all changes.
    pub(super) at: u64,
    /// Object; `None` if it is gone.
    pub(super) value: Option<Box<V>>,
    /// Trigger time; of several changes that wait the oldest, which gives the longest latency.
    pub(super) trigger: TriggerTime,
    /// An object of this name was removed before it.
    pub(super) is_new_object: bool,
}

/// Trigger time of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TriggerTime {
    /// The object has none.
    None,
    /// Time that the object had before the change, as in a repeated list.
    Repeated(SystemTime),
    /// Time that latency is measured from.
    New(SystemTime),
}

impl TriggerTime {
    /// Returns the time for the tracker.
    pub(super) const fn time(self) -> Option<SystemTime> {
        match self {
            Self::None => None,
            Self::Repeated(at) | Self::New(at) => Some(at),
        }
    }
}

/// Object that exists.
#[derive(Debug)]
struct KnownObject {
    seen: Round,
    /// The tracker has an object of this name.
    is_taken: bool,
    trigger: Option<SystemTime>,
}

/// Objects of one kind.
#[derive(Debug)]
pub(super) struct Objects<N, V> {
    known: HashMap<N, KnownObject>,
    pending: HashMap<N, PendingObject<V>>,
    round: Round,
}

impl<N, V> Default for Objects<N, V> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            pending: HashMap::new(),
            round: 0,
        }
    }
}

impl<N: Clone + Eq + Hash + Ord, V> Objects<N, V> {
    /// Sets an object. The trigger time of an earlier change that waits stays if `is_continued`
    /// reports that both count as one change.
    pub(super) fn set(
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
                known.seen = self.round;
                if let (TriggerTime::New(at), true) = (time, known.trigger == trigger) {
                    time = TriggerTime::Repeated(at);
                }
                known.trigger = trigger;
            }
            Entry::Vacant(place) => {
                place.insert(KnownObject {
                    seen: self.round,
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
    pub(super) fn remove(&mut self, at: u64, name: &N) -> bool {
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
    pub(super) fn keep(&mut self, name: &N) {
        if let Some(known) = self.known.get_mut(name) {
            known.seen = self.round;
        }
    }

    /// Begins a list; an unfinished one before it has no effect.
    pub(super) fn begin_list(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    /// Ends a list: objects that were not in it are removed.
    pub(super) fn complete_list(&mut self, at: u64) {
        let round = self.round;
        let unseen = self.known.iter().filter(|(_, known)| known.seen != round);
        let unseen: Vec<N> = unseen.map(|(name, _)| name.clone()).collect();
        for name in unseen {
            self.remove(at, &name);
        }
    }

    /// Reports whether no change waits.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes all changes, sorted by name.
    pub(super) fn take(&mut self) -> Vec<(N, PendingObject<V>)> {
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
