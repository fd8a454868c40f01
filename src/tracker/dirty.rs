//! The Services that differ from their last settled state.
//!
//! Apart from the states themselves because it is small, short-lived and holds the before images
//! that make "changed back" recognizable.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::Settled;
use crate::model::{ServiceName, ServiceState};

/// What is known of one dirty Service.
#[derive(Debug, Default)]
struct Before {
    /// As last settled.
    state: ServiceState,
    /// When the cluster changed what changed here, one for each slice that said so.
    triggers: Vec<SystemTime>,
}

/// Dirty Services by name.
#[derive(Debug, Default)]
pub(super) struct Dirty(BTreeMap<ServiceName, Before>);

impl Dirty {
    /// Notes that the state of `name` went from `before` to `now`.
    pub(super) fn note(&mut self, name: &ServiceName, before: ServiceState, now: &ServiceState) {
        if let Some(known) = self.0.get(name) {
            if known.state == *now {
                self.0.remove(name);
            }
        } else if before != *now {
            self.0.insert(
                name.clone(),
                Before {
                    state: before,
                    triggers: Vec::new(),
                },
            );
        }
    }

    /// Adds a trigger time to a Service, if it is dirty at all.
    pub(super) fn trigger(&mut self, name: &ServiceName, at: SystemTime) {
        if let Some(known) = self.0.get_mut(name) {
            known.triggers.push(at);
        }
    }

    /// Drops the trigger times of a Service: after a removal they would measure the wrong thing.
    pub(super) fn forget_triggers(&mut self, name: &ServiceName) {
        if let Some(known) = self.0.get_mut(name) {
            known.triggers.clear();
        }
    }

    /// The dirty names in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &ServiceName> {
        self.0.keys()
    }

    /// How many Services are dirty.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Everything is settled: gives the trigger times that have come true, and what was before.
    pub(super) fn settle(&mut self) -> Settled {
        let mut settled = Settled::default();
        for (name, before) in std::mem::take(&mut self.0) {
            settled.triggers.extend(before.triggers);
            settled.before.push((name, before.state));
        }
        settled
    }
}
