//! The objects of one kind in a [`ChangeQueue`](super::ChangeQueue): those that exist, and those
//! whose last change waits.
//!
//! Kept separate from the queue because Services and EndpointSlices are treated alike.

use std::hash::Hash;
use std::time::SystemTime;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::listing::Round;

/// The last change of one object.
#[derive(Debug)]
pub(super) struct Pending<V> {
    /// Its place in the order of all changes.
    pub(super) at: u64,
    /// The object; `None` if it is gone.
    pub(super) value: Option<Box<V>>,
    /// When the cluster changed it: of several changes that wait the oldest time, which is the
    /// longest wait.
    pub(super) trigger: Trigger,
    /// Whether another object of this name was removed before it.
    pub(super) is_new_object: bool,
}

/// When the cluster changed an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// It does not say so.
    None,
    /// A time that its state before had already, as in a list that repeats it.
    Repeated(SystemTime),
    /// A time that is measured from.
    New(SystemTime),
}

impl Trigger {
    /// The time as the tracker takes it.
    pub(super) const fn time(self) -> Option<SystemTime> {
        match self {
            Self::None => None,
            Self::Repeated(at) | Self::New(at) => Some(at),
        }
    }
}

/// An object that exists.
#[derive(Debug)]
struct Known {
    seen: Round,
    /// Whether the tracker has an object of this name.
    is_taken: bool,
    trigger: Option<SystemTime>,
}

/// The objects of one kind.
#[derive(Debug)]
pub(super) struct Objects<N, V> {
    known: HashMap<N, Known>,
    pending: HashMap<N, Pending<V>>,
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
    /// The object is now this. The time of an earlier state stays if `is_continued` reports that
    /// both are measured as one.
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
        let mut time = trigger.map_or(Trigger::None, Trigger::New);
        match self.known.entry(name.clone()) {
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.seen = self.round;
                if let (Trigger::New(at), true) = (time, known.trigger == trigger) {
                    time = Trigger::Repeated(at);
                }
                known.trigger = trigger;
            }
            Entry::Vacant(place) => {
                place.insert(Known {
                    seen: self.round,
                    is_taken: is_removed,
                    trigger,
                });
            }
        }
        if let Some(earlier) = earlier
            && let Trigger::New(_) = earlier.trigger
            && earlier.value.is_some_and(|old| is_continued(&old, &value))
        {
            time = earlier.trigger;
        }
        let pending = Pending {
            at,
            value: Some(value),
            trigger: time,
            is_new_object,
        };
        self.pending.insert(name, pending);
    }

    /// The object is gone. False: there was none.
    pub(super) fn remove(&mut self, at: u64, name: &N) -> bool {
        let Some(known) = self.known.remove(name) else {
            return false;
        };
        if known.is_taken {
            let gone = Pending {
                at,
                value: None,
                trigger: Trigger::None,
                is_new_object: false,
            };
            self.pending.insert(name.clone(), gone);
        } else {
            self.pending.remove(name);
        }
        true
    }

    /// The object exists, and what was last known of it stands.
    pub(super) fn keep(&mut self, name: &N) {
        if let Some(known) = self.known.get_mut(name) {
            known.seen = self.round;
        }
    }

    /// A new list begins; an unfinished one before it counts for nothing.
    pub(super) fn begin_list(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    /// The list is complete: what was not seen in it is gone.
    pub(super) fn complete_list(&mut self, at: u64) {
        let round = self.round;
        let unseen = self.known.iter().filter(|(_, known)| known.seen != round);
        let unseen: Vec<N> = unseen.map(|(name, _)| name.clone()).collect();
        for name in unseen {
            self.remove(at, &name);
        }
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes all that waits, by name.
    pub(super) fn take(&mut self) -> Vec<(N, Pending<V>)> {
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
