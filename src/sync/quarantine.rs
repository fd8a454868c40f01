//! Services in quarantine because they make restores fail, and the schedule of their retries.
//!
//! A sync renders a Service in quarantine in its [`Fallback`] form, mostly as last applied. Its
//! changes are rendered only for a restore of its own, which is retried at growing intervals.
//!
//! A [`search`](super::search) finds these Services. Those of which it does not know yet whether
//! they fail are suspects: they are held back like Services in quarantine, until a later
//! sync continues the search.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::bisect::Bisection;
use super::pacer::DoublingDelay;
use crate::host::RestoreError;
use crate::model::{ServiceName, ServiceState};

/// Delay of retries.
const RETRY_DELAY: DoublingDelay = DoublingDelay {
    first: Duration::from_secs(10),
    longest: Duration::from_secs(600),
};

/// Minimum interval between retries as a multiple of the duration of the last one: whatever the
/// number of Services in quarantine, their retries take about a tenth of the time at most, those of
/// changed Services a third.
const RETRY_FACTOR: u32 = 10;

/// Multiple that replaces [`RETRY_FACTOR`] for a Service that changed since its last retry: a
/// corrected one is released soon.
const CHANGED_FACTOR: u32 = 2;

/// Kind of the restore failure that put a Service into quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuarantineCause {
    /// `iptables-restore` named a line. It may be `COMMIT`, or one of another Service.
    Rejected,
    /// The restore failed without naming a line.
    Failed,
    /// The restore timed out.
    TimedOut,
    /// The restore was killed, usually because of a memory limit.
    Killed,
}

impl QuarantineCause {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Rejected, Self::Failed, Self::TimedOut, Self::Killed];

    /// Returns the value in logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            // Dashboards and alerts use this value.
            Self::Rejected => "refused",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Killed => "killed",
        }
    }

    /// Returns the kind of an error that a Service can cause; `None` if an iptables binary did not
    /// start or did not get the xtables lock: that would fail for every payload.
    pub(super) const fn of(error: &RestoreError) -> Option<Self> {
        match error {
            RestoreError::Rejected { .. } => Some(Self::Rejected),
            RestoreError::Failed { .. } => Some(Self::Failed),
            RestoreError::TimedOut { .. } => Some(Self::TimedOut),
            RestoreError::Killed { .. } => Some(Self::Killed),
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

/// State of one Service in quarantine.
#[derive(Debug, Clone)]
struct QuarantineEntry {
    fallback: Fallback,
    since: Instant,
    /// Number of failed retries.
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

    /// Notes a failed retry that ended `now`.
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

    /// Returns the suspects that are held back.
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

#[cfg(test)]
#[path = "tests/quarantine.rs"]
mod tests;
