//! Services that differ from their last applied state.
//!
//! Only the parts of that state which differ are kept, so that a change of one slice costs the
//! same however many slices the Service has.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use crate::model::{Allowance, PortFrontend, Service, ServiceName, ServiceState, Slice, SliceName};

/// Maximum trigger times of one Service: 16 KB. While syncs fail, more of them arrive; the oldest
/// are kept, as they give the longest latency.
const MOST_TRIGGERS: usize = 1000;

/// Number of objects whose changes the kernel does not have yet, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnappliedObjects {
    /// Services that changed themselves.
    pub services: usize,
    /// `EndpointSlices`; one that moved to another Service counts for both.
    pub slices: usize,
}

/// Changes that a successful sync applied.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AppliedChanges {
    /// Trigger times of the slices that changed.
    pub triggers: Vec<SystemTime>,
    /// Services that were dirty, sorted, each with the state that was applied before.
    pub before: Vec<(ServiceName, ServiceState)>,
}

impl AppliedChanges {
    pub(crate) fn append(&mut self, later: Self) {
        self.triggers.extend(later.triggers);
        self.before.extend(later.before);
        self.before.sort_by(|(one, _), (other, _)| one.cmp(other));
    }
}

/// Dirty Services by name.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    services: BTreeMap<ServiceName, Differences>,
    /// Number of objects that differ.
    unapplied: UnappliedObjects,
}

/// Parts of the last applied state of a Service that differ from its present state.
#[derive(Debug, Clone, Default)]
pub(super) struct Differences {
    service: Option<AppliedObject<Service>>,
    slices: BTreeMap<SliceName, AppliedObject<Slice>>,
    /// Frontends that are lost in only one of the two states.
    frontends: BTreeSet<PortFrontend>,
    allowance: Option<Allowance>,
    /// Trigger times of the slices that changed.
    pub(super) triggers: Vec<SystemTime>,
}

/// Object as last applied; `None` if there was none.
#[derive(Debug, Clone)]
struct AppliedObject<T>(Option<Arc<T>>);

impl Dirty {
    /// Notes a change of a Service object.
    pub(super) fn note_service(
        &mut self,
        name: &ServiceName,
        before: Option<Arc<Service>>,
        now: Option<&Arc<Service>>,
    ) {
        let differences = self.services.entry(name.clone()).or_default();
        match &differences.service {
            Some(AppliedObject(applied)) if applied.as_ref() == now => {
                differences.service = None;
                self.unapplied.services -= 1;
            }
            None if before.as_ref() != now => {
                differences.service = Some(AppliedObject(before));
                self.unapplied.services += 1;
            }
            _ => {}
        }
        self.forget_if_clean(name);
    }

    /// Notes a change of a slice of a Service.
    pub(super) fn note_slice(
        &mut self,
        name: &ServiceName,
        slice: &SliceName,
        before: Option<Arc<Slice>>,
        now: Option<&Arc<Slice>>,
    ) {
        let differences = self.services.entry(name.clone()).or_default();
        match differences.slices.entry(slice.clone()) {
            Entry::Occupied(applied) if applied.get().0.as_ref() == now => {
                applied.remove();
                self.unapplied.slices -= 1;
            }
            Entry::Vacant(entry) if before.as_ref() != now => {
                entry.insert(AppliedObject(before));
                self.unapplied.slices += 1;
            }
            _ => {}
        }
        self.forget_if_clean(name);
    }

    /// Notes that a Service lost a frontend, or has it again.
    pub(super) fn note_frontend(&mut self, name: &ServiceName, frontend: PortFrontend) {
        let differences = self.services.entry(name.clone()).or_default();
        toggle(&mut differences.frontends, frontend);
        self.forget_if_clean(name);
    }

    /// Notes the frontends that a Service has not lost, and that its rules in the kernel lack.
    pub(super) fn set_lost(&mut self, name: &ServiceName, lost: BTreeSet<PortFrontend>) {
        self.services.entry(name.clone()).or_default().frontends = lost;
        self.forget_if_clean(name);
    }

    /// Notes a change of the rules that the limits of its namespace allow to a Service.
    pub(super) fn note_allowance(&mut self, name: &ServiceName, before: Allowance, now: Allowance) {
        if before == now {
            return;
        }
        let differences = self.services.entry(name.clone()).or_default();
        let applied = differences.allowance.unwrap_or(before);
        differences.allowance = Some(applied).filter(|applied| *applied != now);
        self.forget_if_clean(name);
    }

    /// Adds a trigger time to a Service, if it is dirty.
    pub(super) fn trigger(&mut self, name: &ServiceName, at: SystemTime) {
        if let Some(known) = self.services.get_mut(name)
            && known.triggers.len() < MOST_TRIGGERS
        {
            known.triggers.push(at);
        }
    }

    /// Drops the trigger times of a Service: after the removal of a slice they measure another
    /// change.
    pub(super) fn forget_triggers(&mut self, name: &ServiceName) {
        if let Some(known) = self.services.get_mut(name) {
            known.triggers.clear();
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &ServiceName> {
        self.services.keys()
    }

    pub(super) fn len(&self) -> usize {
        self.services.len()
    }

    pub(super) fn unapplied(&self) -> UnappliedObjects {
        self.unapplied
    }

    /// Removes the Services that are applied, and returns them. The others stay dirty.
    pub(super) fn take(
        &mut self,
        is_applied: impl Fn(&ServiceName) -> bool,
    ) -> Vec<(ServiceName, Differences)> {
        let all = std::mem::take(self).services.into_iter();
        let applied = all.filter_map(|(name, differences)| {
            if is_applied(&name) {
                return Some((name, differences));
            }
            self.unapplied.services += usize::from(differences.service.is_some());
            self.unapplied.slices += differences.slices.len();
            self.services.insert(name, differences);
            None
        });
        applied.collect()
    }

    pub(super) fn get(&self, name: &ServiceName) -> Option<&Differences> {
        self.services.get(name)
    }

    fn forget_if_clean(&mut self, name: &ServiceName) {
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

    /// Returns the last applied state of a Service with this state now.
    pub(super) fn applied(self, now: Option<&ServiceState>) -> ServiceState {
        let mut state = now.cloned().unwrap_or_default();
        if let Some(AppliedObject(service)) = self.service {
            state.service = service;
        }
        let slices = &mut state.slices;
        slices.retain(|(name, _)| !self.slices.contains_key(name));
        let applied = self.slices.into_iter();
        slices.extend(applied.filter_map(|(name, slice)| Some((name, slice.0?))));
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
