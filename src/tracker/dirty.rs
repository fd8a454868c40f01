//! The Services that differ from their last settled state.
//!
//! Apart from the states themselves because it is small, short-lived and holds the before images
//! that make "changed back" recognizable.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::Settled;
use super::waiting::Waiting;
use crate::model::{ServiceName, ServiceState};

/// Trigger times kept for one Service. A sync that keeps failing would gather them for ever; these
/// are 16 KB, and the oldest, from which latency is the longest.
const MOST_TRIGGERS: usize = 1000;

/// What is known of one dirty Service.
#[derive(Debug, Default)]
struct Before {
    /// As last settled.
    state: ServiceState,
    /// When the cluster changed what changed here, one for each slice that said so.
    triggers: Vec<SystemTime>,
    /// How much differs from it now.
    waiting: Waiting,
}

/// Dirty Services by name.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    services: BTreeMap<ServiceName, Before>,
    /// How much of them differs.
    waiting: Waiting,
}

impl Dirty {
    /// Notes that the state of `name` went from `before` to `now`.
    pub(super) fn note(&mut self, name: &ServiceName, before: ServiceState, now: &ServiceState) {
        if let Some(known) = self.services.get_mut(name) {
            self.waiting -= known.waiting;
            known.waiting = Waiting::between(&known.state, now);
            self.waiting += known.waiting;
            if known.waiting == Waiting::default() {
                self.services.remove(name);
            }
            return;
        }
        let waiting = Waiting::between(&before, now);
        if waiting != Waiting::default() {
            self.waiting += waiting;
            let before = Before {
                state: before,
                triggers: Vec::new(),
                waiting,
            };
            self.services.insert(name.clone(), before);
        }
    }

    /// Adds a trigger time to a Service, if it is dirty at all.
    pub(super) fn trigger(&mut self, name: &ServiceName, at: SystemTime) {
        if let Some(known) = self.services.get_mut(name)
            && known.triggers.len() < MOST_TRIGGERS
        {
            known.triggers.push(at);
        }
    }

    /// Drops the trigger times of a Service: after a removal they would measure the wrong thing.
    pub(super) fn forget_triggers(&mut self, name: &ServiceName) {
        if let Some(known) = self.services.get_mut(name) {
            known.triggers.clear();
        }
    }

    /// The dirty names in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &ServiceName> {
        self.services.keys()
    }

    /// How many Services are dirty.
    pub(super) fn len(&self) -> usize {
        self.services.len()
    }

    /// How much of them waits.
    pub(super) fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// Everything is settled: gives the trigger times that have come true, and what was before.
    pub(super) fn settle(&mut self) -> Settled {
        let mut settled = Settled::default();
        for (name, before) in std::mem::take(self).services {
            settled.triggers.extend(before.triggers);
            settled.before.push((name, before.state));
        }
        settled
    }
}
