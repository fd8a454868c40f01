//! The Services that differ from their last settled state.
//!
//! Kept separate from the states themselves because it is small and short-lived. Only what differs
//! is kept of the settled state, so that each of the 20,000 slices that a Service may have costs
//! the same when it arrives.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use super::waiting::Waiting;
use crate::model::{Allowance, PortFrontend, Service, ServiceName, ServiceState, Slice, SliceName};

/// Trigger times kept for one Service. A sync that keeps failing would gather them for ever; these
/// are 16 KB, and the oldest, from which latency is the longest.
const MOST_TRIGGERS: usize = 1000;

/// Dirty Services by name.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    services: BTreeMap<ServiceName, Differences>,
    /// Number of objects that differ.
    waiting: Waiting,
}

/// Parts of a Service that differ from what was last settled, as they were then.
#[derive(Debug, Clone, Default)]
pub(super) struct Differences {
    service: Option<Before<Service>>,
    slices: BTreeMap<SliceName, Before<Slice>>,
    /// Frontends that were lost then and are not now, or the reverse.
    frontends: BTreeSet<PortFrontend>,
    allowance: Option<Allowance>,
    /// When the cluster changed what changed here, one for each slice that said so.
    pub(super) triggers: Vec<SystemTime>,
}

/// An object as last settled; `None` if there was none.
#[derive(Debug, Clone)]
struct Before<T>(Option<Arc<T>>);

impl Dirty {
    /// Notes that the Service `name` went from `before` to `now`.
    pub(super) fn note_service(
        &mut self,
        name: &ServiceName,
        before: Option<Arc<Service>>,
        now: Option<&Arc<Service>>,
    ) {
        let differences = self.services.entry(name.clone()).or_default();
        match &differences.service {
            Some(Before(settled)) if settled.as_ref() == now => {
                differences.service = None;
                self.waiting.services -= 1;
            }
            None if before.as_ref() != now => {
                differences.service = Some(Before(before));
                self.waiting.services += 1;
            }
            _ => {}
        }
        self.forget_if_settled(name);
    }

    /// Notes that a slice of the Service `name` went from `before` to `now`.
    pub(super) fn note_slice(
        &mut self,
        name: &ServiceName,
        slice: &SliceName,
        before: Option<Arc<Slice>>,
        now: Option<&Arc<Slice>>,
    ) {
        let differences = self.services.entry(name.clone()).or_default();
        match differences.slices.entry(slice.clone()) {
            Entry::Occupied(settled) if settled.get().0.as_ref() == now => {
                settled.remove();
                self.waiting.slices -= 1;
            }
            Entry::Vacant(entry) if before.as_ref() != now => {
                entry.insert(Before(before));
                self.waiting.slices += 1;
            }
            _ => {}
        }
        self.forget_if_settled(name);
    }

    /// Notes that the Service `name` has lost a frontend, or has it again.
    pub(super) fn note_frontend(&mut self, name: &ServiceName, frontend: PortFrontend) {
        let differences = self.services.entry(name.clone()).or_default();
        toggle(&mut differences.frontends, frontend);
        self.forget_if_settled(name);
    }

    /// Notes which frontends the kernel's rules of a Service lack that has none lost now.
    pub(super) fn set_lost(&mut self, name: &ServiceName, lost: BTreeSet<PortFrontend>) {
        self.services.entry(name.clone()).or_default().frontends = lost;
        self.forget_if_settled(name);
    }

    /// Notes that the limits of its namespace left `before` to the Service `name`, and now this.
    pub(super) fn note_allowance(&mut self, name: &ServiceName, before: Allowance, now: Allowance) {
        if before == now {
            return;
        }
        let differences = self.services.entry(name.clone()).or_default();
        let settled = differences.allowance.unwrap_or(before);
        differences.allowance = Some(settled).filter(|settled| *settled != now);
        self.forget_if_settled(name);
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

    /// Returns the number of objects that differ.
    pub(super) fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// Takes the Services that are settled out of the set. The others stay dirty.
    pub(super) fn take(
        &mut self,
        is_settled: impl Fn(&ServiceName) -> bool,
    ) -> Vec<(ServiceName, Differences)> {
        let all = std::mem::take(self).services.into_iter();
        let settled = all.filter_map(|(name, differences)| {
            if is_settled(&name) {
                return Some((name, differences));
            }
            self.waiting.services += usize::from(differences.service.is_some());
            self.waiting.slices += differences.slices.len();
            self.services.insert(name, differences);
            None
        });
        settled.collect()
    }

    /// Parts of a dirty Service that differ.
    pub(super) fn get(&self, name: &ServiceName) -> Option<&Differences> {
        self.services.get(name)
    }

    fn forget_if_settled(&mut self, name: &ServiceName) {
        if self.services.get(name).is_some_and(Differences::is_empty) {
            self.services.remove(name);
        }
    }
}

impl Differences {
    fn is_empty(&self) -> bool {
        self.service.is_none()
            && self.slices.is_empty()
            && self.frontends.is_empty()
            && self.allowance.is_none()
    }

    /// Returns the state that was last settled of a Service that is `now` so.
    pub(super) fn settled(self, now: Option<&ServiceState>) -> ServiceState {
        let mut state = now.cloned().unwrap_or_default();
        if let Some(Before(service)) = self.service {
            state.service = service;
        }
        let slices = &mut state.slices;
        slices.retain(|(name, _)| !self.slices.contains_key(name));
        let settled = self.slices.into_iter();
        slices.extend(settled.filter_map(|(name, slice)| Some((name, slice.0?))));
        slices.sort_by(|(one, _), (other, _)| one.cmp(other));
        for frontend in self.frontends {
            toggle(&mut state.lost, frontend);
        }
        if let Some(allowance) = self.allowance {
            state.allowance = allowance;
        }
        state
    }
}

/// Adds a frontend that is not in the set, or removes it if it is.
pub(super) fn toggle(set: &mut BTreeSet<PortFrontend>, frontend: PortFrontend) {
    if !set.remove(&frontend) {
        set.insert(frontend);
    }
}
