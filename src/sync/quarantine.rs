//! Services in quarantine because they make restores fail, and the schedule of their retries.
//!
//! A sync renders a Service in quarantine as its [`Fallback`], mostly as it was applied last. Its
//! changes are rendered only for a separate restore, which is retried at growing intervals.
//!
//! [`isolate`](super::isolate) finds these Services.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::host::RestoreError;
use crate::model::{ServiceName, ServiceState};

/// Delay of the first retry; each further one is twice as long.
const FIRST_RETRY: Duration = Duration::from_secs(10);

/// Maximum interval between two retries.
const LONGEST_RETRY: Duration = Duration::from_secs(600);

/// Minimum interval of retries as a multiple of their duration: retries that hang may delay other
/// Services for at most a tenth of the time.
const RETRY_SHARE: u32 = 10;

/// Multiple for a Service that changed since its last retry: a corrected one is released soon.
const CHANGED_SHARE: u32 = 2;

/// Kind of the restore failure that put a Service into quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuarantineCause {
    /// A line of the Service was rejected.
    Rejected,
    /// The restore failed without naming a line of the Service.
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
            Self::Rejected => "refused",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Killed => "killed",
        }
    }

    /// Returns the kind of an error that a Service can cause; `None` for programs that do not
    /// start or do not get the xtables lock: they fail for every payload.
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

/// Form in which full syncs render a Service in quarantine: the best one that the kernel accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// As it was last applied.
    LastApplied,
    /// Without endpoints, so that clients get an immediate reject.
    NoEndpoints,
    /// Without rules.
    LeftOut,
}

/// State of one Service in quarantine.
#[derive(Debug)]
struct QuarantineEntry {
    fallback: Fallback,
    since: Instant,
    /// Number of failed retries.
    tries: u32,
    last_try: Instant,
    took: Duration,
    /// State of the Service at the last retry.
    tried: ServiceState,
    is_changed: bool,
}

impl QuarantineEntry {
    fn next_try(&self) -> Instant {
        let (wait, share) = if self.is_changed {
            (FIRST_RETRY, CHANGED_SHARE)
        } else {
            let doubled = FIRST_RETRY.saturating_mul(1 << self.tries.min(16));
            (doubled.min(LONGEST_RETRY), RETRY_SHARE)
        };
        self.last_try + wait.max(self.took.saturating_mul(share))
    }
}

/// Services in quarantine. Their rendered states are overrides in the tracker.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    cases: BTreeMap<ServiceName, QuarantineEntry>,
}

impl Quarantine {
    pub(super) fn names(&self) -> impl Iterator<Item = &ServiceName> {
        self.cases.keys()
    }

    pub(super) fn has(&self, name: &ServiceName) -> bool {
        self.cases.contains_key(name)
    }

    pub(super) fn fallback(&self, name: &ServiceName) -> Option<Fallback> {
        self.cases.get(name).map(|case| case.fallback)
    }

    /// Puts a Service into quarantine; `wanted` is its state in the cluster. Returns the state to
    /// render.
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
        let case = QuarantineEntry {
            fallback,
            since: now,
            tries: 0,
            last_try: now,
            took: Duration::ZERO,
            tried: without_lost(wanted),
            is_changed: false,
        };
        self.cases.insert(name.clone(), case);
        state
    }

    /// Moves a Service to its next fallback, because the kernel rejects the state that is
    /// `rendered`; returns the state to render.
    pub(super) fn lower(&mut self, name: &ServiceName, rendered: &ServiceState) -> ServiceState {
        let fallback = match self.fallback(name) {
            Some(Fallback::LastApplied) => Fallback::NoEndpoints,
            Some(Fallback::NoEndpoints | Fallback::LeftOut) | None => Fallback::LeftOut,
        };
        if let Some(case) = self.cases.get_mut(name) {
            case.fallback = fallback;
        }
        match fallback {
            Fallback::LastApplied | Fallback::NoEndpoints => without_endpoints(rendered),
            Fallback::LeftOut => ServiceState::default(),
        }
    }

    /// Releases a Service; returns the time that it spent in quarantine.
    pub(super) fn remove(&mut self, name: &ServiceName, now: Instant) -> Duration {
        let case = self.cases.remove(name);
        case.map_or(Duration::ZERO, |case| {
            now.saturating_duration_since(case.since)
        })
    }

    /// Notes the Services whose state in the cluster changed since their last retry.
    pub(super) fn note_changes<'s>(
        &mut self,
        wanted: impl Fn(&ServiceName) -> Option<&'s ServiceState>,
    ) {
        let gone = ServiceState::default();
        for (name, case) in &mut self.cases {
            case.is_changed = *wanted(name).unwrap_or(&gone) != case.tried;
        }
    }

    /// Returns the Service whose retry is due; with several, the one that was due first.
    pub(super) fn due(&self, now: Instant) -> Option<ServiceName> {
        let mut due: Vec<_> = self.cases.iter().collect();
        due.retain(|(_, case)| case.next_try() <= now);
        let first = due.into_iter().min_by_key(|(_, case)| case.next_try())?;
        Some(first.0.clone())
    }

    /// Returns the time of the next retry, if any Service is in quarantine.
    pub(super) fn next_try(&self) -> Option<Instant> {
        self.cases.values().map(QuarantineEntry::next_try).min()
    }

    /// Notes a failed retry that ended `now`.
    pub(super) fn failed(
        &mut self,
        name: &ServiceName,
        tried: ServiceState,
        took: Duration,
        now: Instant,
    ) {
        if let Some(case) = self.cases.get_mut(name) {
            case.tries = case.tries.saturating_add(1);
            (case.last_try, case.took) = (now, took);
            (case.tried, case.is_changed) = (without_lost(tried), false);
        }
    }
}

fn without_endpoints(state: &ServiceState) -> ServiceState {
    ServiceState {
        service: state.service.clone(),
        allowance: state.allowance,
        ..ServiceState::default()
    }
}

/// Returns the state without lost frontends: if another Service takes one, this one is not fixed.
fn without_lost(mut state: ServiceState) -> ServiceState {
    state.lost.clear();
    state
}

#[cfg(test)]
#[path = "tests/quarantine.rs"]
mod tests;
