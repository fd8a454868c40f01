//! Services that are kept apart because restores fail with their rules: suspects, which a bisection
//! narrows down, and those found, in quarantine, with the schedule of their retries.
//!
//! A sync renders a Service in quarantine in its [`Fallback`] form, mostly as last applied. Its
//! changes are rendered only for a restore of its own, which is retried at growing intervals.
//!
//! A [`search`](super::search) finds these Services. Those of which it does not know yet whether
//! they fail are suspects: they are held back like Services in quarantine, until a later
//! sync continues the search.
//!
//! # Bisection
//!
//! A group whose restore fails is halved until single Services remain: first between namespaces,
//! so that the Services of one cannot delay other Services, then within each. If the failure names
//! a rejected line, its Service is known without halving. Groups of namespaces with few failures
//! are restored first, of these the largest. If none of these succeeds, the smallest follow: they
//! are most likely to.
//!
//! A Service that fails alone before any restore succeeds is tried again after one did: the node
//! may have been the cause, for example for lack of memory.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::host::{ProgramExit, RestoreError};
use crate::model::{ServiceName, ServiceState};
use crate::net::DoublingDelay;

/// The first retry comes soon: a restore also fails for reasons that end soon, such as a lack of
/// memory, and a retry of one Service costs little.
const RETRY_DELAY: DoublingDelay = DoublingDelay {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(600),
};

/// Minimum interval between retries as a multiple of the duration of the last one: whatever the
/// number of Services in quarantine, their retries take about a tenth of the time at most, those of
/// changed Services a third.
const RETRY_FACTOR: u32 = 10;

/// Multiple that replaces [`RETRY_FACTOR`] for a Service that changed since its last retry: a
/// corrected one is released soon.
const CHANGED_FACTOR: u32 = 2;

enum_of_words! {
    all
    /// Kind of the restore failure that put a Service into quarantine.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum QuarantineCause {
        /// `iptables-restore` named a line. It may be `COMMIT`, or one of another Service.
        // Dashboards and alerts use this value.
        Rejected = "refused",
        /// The restore failed without naming a line.
        Failed = "failed",
        TimedOut = "timed_out",
        /// The restore was killed, usually because of a memory limit.
        Killed = "killed",
    }
}

impl QuarantineCause {
    /// Returns the kind of an error that a Service can cause; `None` if an iptables binary did not
    /// start or did not get the xtables lock: that would fail for every payload.
    pub(super) const fn of(error: &RestoreError) -> Option<Self> {
        match error {
            RestoreError::Rejected { .. } => Some(Self::Rejected),
            RestoreError::Failed { exit, .. } => Some(match exit {
                ProgramExit::Exited(_) => Self::Failed,
                ProgramExit::TimedOut(_) => Self::TimedOut,
                ProgramExit::Signaled(_) => Self::Killed,
            }),
            RestoreError::Locked { .. } | RestoreError::Spawn { .. } => None,
        }
    }
}

/// Form in which syncs render a Service in quarantine: the first of these that exists and does not
/// make restores fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// In the last applied state.
    LastApplied,
    /// Without endpoints, so that clients get an immediate reject.
    NoEndpoints,
    /// Without rules.
    NoRules,
}

#[derive(Debug, Clone)]
struct QuarantineEntry {
    fallback: Fallback,
    since: Instant,
    failed_retries: u32,
    last_retry: Instant,
    /// State in the cluster at the last retry.
    retried: ServiceState,
    /// The state in the cluster differs from `retried`.
    is_changed: bool,
    /// The Service was deleted in the cluster since its last retry.
    is_deleted: bool,
}

impl QuarantineEntry {
    /// Returns the time of the next retry by the failures of the Service alone.
    fn due(&self) -> Instant {
        if self.is_deleted {
            return self.last_retry;
        }
        // The failure that put the Service into quarantine counts as the first one.
        let failures = self.failed_retries.saturating_add(1);
        let wait = RETRY_DELAY.after(if self.is_changed { 1 } else { failures });
        self.last_retry + wait
    }

    /// Returns the time of the next retry; `last` is the end and the duration of the last one of
    /// any Service.
    fn next_retry(&self, last: Option<(Instant, Duration)>) -> Instant {
        let factor = if self.is_changed {
            CHANGED_FACTOR
        } else {
            RETRY_FACTOR
        };
        // A deletion waits for no retries of other Services.
        let last = last.filter(|(ended, _)| !self.is_deleted || *ended == self.last_retry);
        let rested = last.map(|(ended, took)| ended + took.saturating_mul(factor));
        rested.into_iter().fold(self.due(), Instant::max)
    }
}

/// Services in quarantine, and suspects. Their rendered states are overrides in the tracker.
#[derive(Debug, Clone, Default)]
pub(super) struct Quarantine {
    entries: BTreeMap<ServiceName, QuarantineEntry>,
    /// End and duration of the last retry of any Service.
    last_retry: Option<(Instant, Duration)>,
    /// Suspects of a search that continues with a later sync.
    suspects: Bisection,
    /// Time of the next part of that search; `None`: there are no suspects.
    continue_at: Option<Instant>,
}

impl Quarantine {
    pub(super) fn names(&self) -> impl Iterator<Item = &ServiceName> {
        self.entries.keys()
    }

    pub(super) fn has(&self, name: &ServiceName) -> bool {
        self.entries.contains_key(name)
    }

    pub(super) fn fallback(&self, name: &ServiceName) -> Option<Fallback> {
        self.entries.get(name).map(|entry| entry.fallback)
    }

    /// Puts a Service into quarantine; `applied` is its last applied state, `wanted` its state in
    /// the cluster. Returns the state to render.
    pub(super) fn add(
        &mut self,
        name: &ServiceName,
        applied: Option<ServiceState>,
        wanted: ServiceState,
        now: Instant,
    ) -> ServiceState {
        let (fallback, state) = match applied {
            Some(applied) => (Fallback::LastApplied, applied),
            None => (Fallback::NoEndpoints, without_endpoints(&wanted)),
        };
        let entry = QuarantineEntry {
            fallback,
            since: now,
            failed_retries: 0,
            last_retry: now,
            retried: without_lost(wanted),
            is_changed: false,
            is_deleted: false,
        };
        self.entries.insert(name.clone(), entry);
        state
    }

    /// Moves a Service to its next fallback, because its `rendered` state makes restores fail;
    /// returns the state to render.
    pub(super) fn lower(&mut self, name: &ServiceName, rendered: &ServiceState) -> ServiceState {
        let (fallback, state) = match self.fallback(name) {
            Some(Fallback::LastApplied) => (Fallback::NoEndpoints, without_endpoints(rendered)),
            Some(Fallback::NoEndpoints | Fallback::NoRules) | None => {
                (Fallback::NoRules, ServiceState::default())
            }
        };
        if let Some(entry) = self.entries.get_mut(name) {
            entry.fallback = fallback;
        }
        state
    }

    /// Releases a Service; returns the time that it spent in quarantine.
    pub(super) fn remove(&mut self, name: &ServiceName, now: Instant) -> Duration {
        let entry = self.entries.remove(name);
        entry.map_or(Duration::ZERO, |entry| {
            now.saturating_duration_since(entry.since)
        })
    }

    /// Notes the Services whose state in the cluster changed since their last retry. `wanted` is
    /// that state in the tracker. Like `retried`, it has no lost frontends: while a Service has an
    /// override, the tracker keeps its lost frontends there.
    pub(super) fn note_changes<'s>(
        &mut self,
        wanted: impl Fn(&ServiceName) -> Option<&'s ServiceState>,
    ) {
        let gone = ServiceState::default();
        for (name, entry) in &mut self.entries {
            let wanted = wanted(name);
            entry.is_changed = *wanted.unwrap_or(&gone) != entry.retried;
            entry.is_deleted =
                entry.is_changed && wanted.is_none_or(|state| state.service.is_none());
        }
    }

    /// Returns the Service whose retry is due; with several, the one that was due first.
    pub(super) fn due(&self, now: Instant) -> Option<ServiceName> {
        let due = self.entries.iter();
        let due = due.filter(|(_, entry)| entry.next_retry(self.last_retry) <= now);
        let (name, _) = due.min_by_key(|(_, entry)| entry.due())?;
        Some(name.clone())
    }

    /// Returns the time of the next retry, or of the next part of a search, if there is one.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        let entries = self.entries.values();
        let retries = entries.map(|entry| entry.next_retry(self.last_retry));
        retries.chain(self.continue_at).min()
    }

    /// Notes a retry that a fault of the node ended `now`: it shows nothing about the Service.
    pub(super) fn postpone(&mut self, name: &ServiceName, took: Duration, now: Instant) {
        self.last_retry = Some((now, took));
        if let Some(entry) = self.entries.get_mut(name) {
            entry.last_retry = now;
        }
    }

    pub(super) fn failed(
        &mut self,
        name: &ServiceName,
        retried: ServiceState,
        took: Duration,
        now: Instant,
    ) {
        self.last_retry = Some((now, took));
        if let Some(entry) = self.entries.get_mut(name) {
            entry.failed_retries = entry.failed_retries.saturating_add(1);
            entry.last_retry = now;
            (entry.retried, entry.is_changed) = (without_lost(retried), false);
            entry.is_deleted = false;
        }
    }

    /// Keeps the suspects that are left `now`, after trials that took this long. The search
    /// continues after as long a pause: it takes half of the time at most.
    pub(super) fn keep_suspects(&mut self, suspects: Bisection, took: Duration, now: Instant) {
        self.continue_at = (!suspects.is_empty()).then_some(now + took);
        self.suspects = suspects;
    }

    /// Returns the time of the next part of the search for suspects, if there are any.
    pub(super) const fn next_part(&self) -> Option<Instant> {
        self.continue_at
    }

    /// Takes all suspects, to go on with their search.
    pub(super) fn take_suspects(&mut self) -> Bisection {
        self.continue_at = None;
        std::mem::take(&mut self.suspects)
    }

    pub(super) fn suspects(&self) -> impl Iterator<Item = &ServiceName> {
        self.suspects.unresolved()
    }
}

fn without_endpoints(state: &ServiceState) -> ServiceState {
    ServiceState {
        service: state.service.clone(),
        // The limits of the namespace may allow it no rules at all.
        allowance: state.allowance,
        ..ServiceState::default()
    }
}

/// Returns the state without lost frontends: a Service does not count as changed when another one
/// takes a frontend from it.
fn without_lost(mut state: ServiceState) -> ServiceState {
    state.lost.clear();
    state
}

/// Number of restores allowed while none has succeeded, in addition to two for each halving from
/// all Services to a single one: a node that can restore nothing ends the search.
const MORE_RESTORES: u32 = 8;

/// Number of Services that fail alone after which the search asks whether the node is at fault,
/// while no restore has succeeded.
const NODE_FAULT_FAILURES: usize = 3;

/// Number of named Services after which the rest of a group is halved as well, while no restore has
/// succeeded: otherwise each restore would contain all that are left.
const NAMED_BEFORE_HALVING: usize = 3;

/// State of one bisection. Groups are never empty.
#[derive(Debug, Clone, Default)]
pub(super) struct Bisection {
    /// Groups that are neither applied nor found to fail, each sorted by namespace.
    groups: Vec<Vec<ServiceName>>,
    /// Number of failed restores of groups within a namespace, or that named one of its Services.
    failures: BTreeMap<Box<str>, u32>,
    /// Number of restores allowed while none has succeeded, and how many of them are left.
    restores_allowed: u32,
    restores_left: u32,
    /// Number of Services found to fail by their rejected lines.
    named: usize,
    /// Services that failed as a group of one, without a rejected line, while no restore had
    /// succeeded.
    unproven: Vec<ServiceName>,
    /// A restore of some rules of Services has succeeded: the node is able to.
    has_succeeded: bool,
}

impl Bisection {
    /// Starts a bisection with all of `names` in one group. They are sorted, those with the most
    /// rules last.
    pub(super) fn new(mut names: Vec<ServiceName>) -> Self {
        // Keeps the order within each namespace.
        names.sort_by(|one, other| one.namespace().cmp(other.namespace()));
        let halvings = names.len().checked_ilog2().map_or(0, |log| log + 1);
        let restores_allowed = 2 * halvings + MORE_RESTORES;
        let mut bisection = Self {
            restores_allowed,
            restores_left: restores_allowed,
            ..Self::default()
        };
        bisection.add(names);
        bisection
    }

    /// Returns the group to restore next; `None` if none is left, or if it has to be known first
    /// whether the node is at fault.
    pub(super) fn next(&mut self) -> Option<Vec<ServiceName>> {
        if !self.has_succeeded
            && (self.restores_left == 0 || self.unproven.len() >= NODE_FAULT_FAILURES)
        {
            return None;
        }
        let first = (0..self.groups.len()).min_by_key(|index| self.rank(*index))?;
        self.restores_left = self.restores_left.saturating_sub(1);
        Some(self.groups.swap_remove(first))
    }

    /// Notes that a restore of rules of Services succeeded.
    pub(super) fn succeeded(&mut self) {
        self.has_succeeded = true;
        let again = std::mem::take(&mut self.unproven);
        self.groups.extend(again.into_iter().map(|name| vec![name]));
    }

    /// Notes that the group failed; `named` is the Service of the rejected line, if the failure
    /// names one. Returns the Service that is now known to be the cause, if there is one.
    pub(super) fn failed(
        &mut self,
        mut group: Vec<ServiceName>,
        named: Option<&ServiceName>,
    ) -> Option<ServiceName> {
        let at = named.and_then(|named| group.iter().position(|name| name == named));
        let named = at.and_then(|at| group.get(at)).map(ServiceName::namespace);
        if let Some(namespace) = named.or_else(|| only_namespace(&group)) {
            *self.failures.entry(namespace.into()).or_default() += 1;
        }
        if at.is_none() && group.len() > 1 {
            self.halve(group);
            return None;
        }
        let Some(at) = at else {
            if self.has_succeeded {
                return group.pop();
            }
            self.unproven.extend(group);
            return None;
        };
        self.named += 1;
        let failing = group.remove(at);
        let is_of_it = |name: &ServiceName| name.namespace() == failing.namespace();
        let (same, others): (Vec<_>, Vec<_>) = group.into_iter().partition(is_of_it);
        if self.has_succeeded || self.named < NAMED_BEFORE_HALVING {
            self.add(same);
            self.add(others);
        } else {
            self.halve(same);
            self.halve(others);
        }
        Some(failing)
    }

    /// Reports whether a Service may count as the cause only after a restore of other rules
    /// succeeded: some failed or are left, and no restore has succeeded.
    pub(super) fn needs_proof(&self) -> bool {
        !self.has_succeeded && (self.named > 0 || !self.is_empty())
    }

    /// Reports whether the node counts as the cause if the kernel has no rules of Services: no
    /// restore succeeded, and several Services failed in any way, or some are left. A kernel that
    /// lacks a module may reject a line of each.
    pub(super) fn is_node_fault(&self) -> bool {
        let failing = self.named + self.unproven.len();
        self.needs_proof() && (failing >= NODE_FAULT_FAILURES || !self.groups.is_empty())
    }

    pub(super) const fn has_succeeded(&self) -> bool {
        self.has_succeeded
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.unproven.is_empty()
    }

    /// Returns the Services that were neither applied nor found to fail.
    pub(super) fn unresolved(&self) -> impl Iterator<Item = &ServiceName> {
        self.groups.iter().flatten().chain(&self.unproven)
    }

    /// Adds a group: a new one, or one from [`Bisection::next`] that was not restored.
    pub(super) fn add(&mut self, group: Vec<ServiceName>) {
        if !group.is_empty() {
            self.groups.push(group);
        }
    }

    /// Removes the Services that are not to be kept.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&ServiceName) -> bool) {
        for group in &mut self.groups {
            group.retain(&is_kept);
        }
        self.groups.retain(|group| !group.is_empty());
        self.unproven.retain(&is_kept);
    }

    pub(super) fn append(&mut self, earlier: Self) {
        self.groups.extend(earlier.groups);
        for (namespace, failures) in earlier.failures {
            *self.failures.entry(namespace).or_default() += failures;
        }
    }

    /// Returns the order in which a group is restored: the lowest comes first.
    fn rank(&self, index: usize) -> (u32, usize) {
        let group = self.groups.get(index).map_or(&[][..], Vec::as_slice);
        if !self.has_succeeded && self.restores_left < self.restores_allowed / 2 {
            return (0, group.len());
        }
        let failures = only_namespace(group).and_then(|namespace| self.failures.get(namespace));
        (
            failures.copied().unwrap_or_default(),
            usize::MAX - group.len(),
        )
    }

    /// Splits a group in two of about the same size; one of several namespaces between two of them.
    fn halve(&mut self, mut group: Vec<ServiceName>) {
        let middle = group.len() / 2;
        let is_border = |at: &usize| {
            let pair = at.checked_sub(1).and_then(|before| group.get(before..=*at));
            pair.is_some_and(|pair| only_namespace(pair).is_none())
        };
        let border = (1..group.len())
            .filter(is_border)
            .min_by_key(|at| at.abs_diff(middle));
        let heavier = group.split_off(border.unwrap_or(middle));
        self.add(heavier);
        self.add(group);
    }
}

/// Returns the namespace of a group, if all of its Services have the same.
fn only_namespace(group: &[ServiceName]) -> Option<&str> {
    let (first, last) = (group.first()?.namespace(), group.last()?.namespace());
    (first == last).then_some(first)
}

#[cfg(test)]
#[path = "tests/bisect.rs"]
mod bisection_tests;

#[cfg(test)]
#[path = "tests/quarantine.rs"]
mod tests;
