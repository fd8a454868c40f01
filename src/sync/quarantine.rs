//! Services that make restores fail, and when each of them is tried again.
//!
//! One Service must not stop the others. A Service in quarantine is left out of every sync: the
//! kernel keeps its last applied rules. Its changes are rendered only for a restore of its own,
//! which is retried after growing intervals. Full syncs render it in the form of its [`Fallback`].
//!
//! [`isolate`](super::isolate) finds these Services.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::host::RestoreError;
use crate::model::{ServiceName, ServiceState};

/// Time from the first failure to the first retry; each further interval is twice as long.
const FIRST_RETRY: Duration = Duration::from_secs(10);

/// Longest interval between two retries.
const LONGEST_RETRY: Duration = Duration::from_secs(600);

/// Interval of retries as a multiple of the time that one takes: those that hang may cost the
/// other Services a tenth of the time.
const RETRY_SHARE: u32 = 10;

/// Multiple for a Service that changed since its last retry, so that a corrected one returns soon.
const CHANGED_SHARE: u32 = 2;

/// Failure of the restore that put a Service into quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A line was rejected.
    Refused,
    /// The restore failed without a line of the Service.
    Failed,
    /// The restore timed out.
    TimedOut,
    /// The restore was killed, mostly for memory.
    Killed,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Refused, Self::Failed, Self::TimedOut, Self::Killed];

    /// Label of metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Killed => "killed",
        }
    }

    /// The cause, if a Service can be to blame: programs that do not start, or do not get the
    /// lock, fail for every payload.
    pub(super) const fn of(error: &RestoreError) -> Option<Self> {
        match error {
            RestoreError::Rejected { .. } => Some(Self::Refused),
            RestoreError::Failed { .. } => Some(Self::Failed),
            RestoreError::TimedOut { .. } => Some(Self::TimedOut),
            RestoreError::Killed { .. } => Some(Self::Killed),
            RestoreError::Locked { .. } | RestoreError::Spawn { .. } => None,
        }
    }
}

/// The form in which full syncs render a Service in quarantine, the best one that the kernel
/// takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// As it was last applied.
    LastApplied,
    /// Without endpoints, so that clients get an immediate reject.
    NoEndpoints,
    /// Without any rule.
    LeftOut,
}

/// One Service in quarantine.
#[derive(Debug)]
struct Case {
    fallback: Fallback,
    since: Instant,
    /// Failed restores of the Service alone.
    tries: u32,
    last_try: Instant,
    took: Duration,
    /// State of the last retry.
    tried: ServiceState,
    is_changed: bool,
}

impl Case {
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

/// The Services in quarantine. The states in which they are rendered are overrides of the tracker.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    cases: BTreeMap<ServiceName, Case>,
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

    /// Puts a Service into quarantine that is `wanted` and was `applied`; returns its state to
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
        let case = Case {
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

    /// Gives a Service its next form, because the kernel does not take the one that is `rendered`;
    /// returns that form.
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

    /// Takes a Service out of quarantine; returns the time that it was in.
    pub(super) fn remove(&mut self, name: &ServiceName, now: Instant) -> Duration {
        let case = self.cases.remove(name);
        case.map_or(Duration::ZERO, |case| {
            now.saturating_duration_since(case.since)
        })
    }

    /// Takes in which Services are wanted in another form than at their last try.
    pub(super) fn note_changes<'s>(
        &mut self,
        wanted: impl Fn(&ServiceName) -> Option<&'s ServiceState>,
    ) {
        let gone = ServiceState::default();
        for (name, case) in &mut self.cases {
            case.is_changed = *wanted(name).unwrap_or(&gone) != case.tried;
        }
    }

    /// The Service to try next, if one is due: the one that has waited for the longest.
    pub(super) fn due(&self, now: Instant) -> Option<ServiceName> {
        let mut due: Vec<_> = self.cases.iter().collect();
        due.retain(|(_, case)| case.next_try() <= now);
        let first = due.into_iter().min_by_key(|(_, case)| case.next_try())?;
        Some(first.0.clone())
    }

    /// When a Service is due next, if any is in quarantine.
    pub(super) fn next_try(&self) -> Option<Instant> {
        self.cases.values().map(Case::next_try).min()
    }

    /// A restore of the Service alone failed, which ended `now`.
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

/// A change of another Service, because of which this one loses a frontend, mends nothing here.
fn without_lost(mut state: ServiceState) -> ServiceState {
    state.lost.clear();
    state
}

#[cfg(test)]
#[path = "tests/quarantine.rs"]
mod tests;
