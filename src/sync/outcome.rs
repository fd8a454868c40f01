//! Outcome of a sync: its attempts, the search for Services that make restores fail, and the retry
//! of a Service in quarantine.
//!
//! Logs, metrics and health are made from an [`Outcome`]: the sync itself neither logs nor counts.

use std::time::Duration;

use super::quarantine::{Fallback, QuarantineCause};
use super::schedule::{Scope, SyncResult};
use crate::host::{CounterError, Excerpt, RestoreError, Restored, RunError, excerpt, is_untouched};
use crate::model::ServiceName;
use crate::render::{
    AppliedService, PartialPayload, PayloadStats, RuleCounts, ServiceTotals, service_of_line,
};
use crate::rules::{Payload, Table};
use crate::telemetry::on_one_line;
use crate::tracker::AppliedChanges;

/// Effect of syncs on the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncMode {
    /// Rules are written into the kernel.
    Restore,
    /// Payloads are printed; nothing is written.
    DryRun,
    /// Payloads are counted and compared with the rules that another proxy writes; nothing is
    /// written.
    Shadow,
}

/// Outcome of one sync: one attempt, or two if the first one failed and another scope may succeed;
/// then, if due, one of: a search, a part of an earlier one, a retry of a Service in quarantine.
#[derive(Debug)]
pub struct Outcome {
    pub attempts: Vec<Attempt>,
    /// Problems that the sync found before or between its restores.
    pub notices: Notices,
    /// Search for the Services that made the attempts fail, or a part of an earlier one.
    pub search: Option<SearchResult>,
    pub quarantine_retry: Option<QuarantineRetry>,
    /// Changes that were applied; empty if all attempts failed and a search applied none.
    pub applied: AppliedChanges,
    /// Number of dirty Services before the sync, those in quarantine included.
    pub dirty: usize,
    /// Number of kube-proxy rules in the kernel.
    pub rules: RuleCounts,
    /// Number of tree chains in the kernel.
    pub tree_chains: usize,
    /// Sums over all Services in the applied state, such as ports without local endpoints, for
    /// metrics.
    pub totals: ServiceTotals,
    /// Services that are not rendered in their state in the cluster, sorted: those in quarantine,
    /// and suspects that are held back.
    pub overridden: Vec<ServiceName>,
}

/// Problems that attempts, a search or a retry found in addition to failed restores. Each is
/// reported once.
#[derive(Debug, Default)]
pub struct Notices {
    /// Reason that nfacct counters are missing; `None` if it was reported before.
    pub no_counter: Option<CounterError>,
    /// Tables that became unreadable, with causes.
    pub newly_unreadable: Vec<(Table, RunError)>,
}

/// One attempt of a sync: a restore, or the finding that none was needed.
#[derive(Debug)]
pub struct Attempt {
    /// Scope that the attempt had in the end: a declined adoption is full.
    pub scope: Scope,
    /// Duration, including rendering.
    pub took: Duration,
    /// Size of the payload; zero if no restore was needed.
    pub stats: PayloadStats,
    /// Text of the payload of a partial restore. A full payload is never in memory as a whole.
    pub payload: Vec<u8>,
    /// Reason that adoption was declined.
    pub declined: Option<&'static str>,
    /// Wait for the xtables lock. Zero after a failure; if the wait timed out, it is in the error.
    pub lock_wait: Duration,
    /// Failure of the restore or of the read before it.
    pub result: Result<(), Failure>,
}

#[derive(Debug)]
pub enum Failure {
    /// The rules in the kernel could not be read, so no restore was made.
    Read(RunError),
    /// The payload was not applied, or not all of it.
    Restore {
        error: RestoreError,
        /// Lines of the payload around the rejected one, if there is one.
        excerpt: Option<Excerpt>,
        /// Service of the rejected line, by the rules of the payload.
        named: Option<ServiceName>,
        /// The kernel has nothing of the payload.
        is_untouched: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Another attempt of the same sync, with this scope.
    Attempt(Scope),
    /// The search for the Services that make restores fail.
    Search,
    /// The next sync, after the retry delay.
    Retry,
}

/// Result of a search for Services that make restores fail.
#[derive(Debug, Default)]
pub struct SearchResult {
    pub restores: usize,
    pub failed: usize,
    pub quarantined: Vec<Quarantined>,
    /// Suspects whose changes are held back until a later sync continues the search, sorted.
    pub held_back: Vec<ServiceName>,
    /// Reason that the search ended without a Service at fault: none is in `quarantined`, and none
    /// of its changes counts as applied.
    pub node_fault: Option<NodeFault>,
}

/// Reason that a search or a retry ended without showing whether a Service is at fault. For
/// example, a restore of other Services failed as well, the kernel could not be read or adopted, or
/// `iptables-restore` did not start or did not get the xtables lock. The cause is likely on the
/// node.
#[derive(Debug, Default)]
pub struct NodeFault {
    /// Failure that ended it, on one line; `None` if no restore of a group was made.
    pub cause: Option<String>,
    /// The cause usually passes, like a busy xtables lock: it shows nothing about the next restore.
    pub is_transient: bool,
}

impl SearchResult {
    pub(super) const fn result(&self) -> SyncResult {
        match self.node_fault {
            Some(_) => SyncResult::Failed,
            None => SyncResult::Applied,
        }
    }
}

#[derive(Debug)]
pub struct Quarantined {
    pub name: ServiceName,
    pub cause: QuarantineCause,
    /// Error message of `iptables-restore`, on one line.
    pub error: String,
    /// Form in which the Service is rendered in quarantine.
    pub fallback: Fallback,
}

#[derive(Debug)]
pub struct QuarantineRetry {
    pub name: ServiceName,
    /// Number of restores made. If the first one may have been applied in part, another one writes
    /// the fallback form of the Service.
    pub restores: usize,
    pub failed: usize,
    /// Time that the Service spent in quarantine, if its rules were applied.
    pub result: Result<Duration, TrialFailure>,
    /// Reason that the kernel may have a part of the changes after the retry; `None` if not.
    pub left_damaged: Option<NodeFault>,
}

#[derive(Debug)]
pub enum TrialFailure {
    /// The restore failed in a way that a Service can cause.
    Rules {
        cause: QuarantineCause,
        failure: Failure,
    },
    /// The failure shows nothing about Services.
    Node(NodeFault),
}

impl TrialFailure {
    /// For a trial that left out all Services that may be the cause: its failure is a fault of the
    /// node.
    pub(super) fn into_node_fault(self) -> NodeFault {
        match self {
            Self::Rules { failure, .. } => NodeFault::because_of(&failure),
            Self::Node(fault) => fault,
        }
    }
}

impl Attempt {
    /// Returns an attempt with the payload and the result of its restore; the caller sets the
    /// duration. The text of a full payload is empty: it is never in memory as a whole.
    pub(super) fn new(
        scope: Scope,
        (partial, restored): (PartialPayload, Result<Restored, Failure>),
    ) -> Self {
        let waited = restored.as_ref().map(|restored| restored.lock_wait);
        Self {
            scope,
            took: Duration::ZERO,
            stats: partial.stats,
            payload: partial.text,
            declined: None,
            lock_wait: waited.unwrap_or_default(),
            result: restored.map(drop),
        }
    }
}

impl Outcome {
    /// Returns the step that follows the attempt at this index, assuming that it failed.
    pub(super) fn step_after(&self, attempt: usize) -> NextStep {
        match (self.attempts.get(attempt + 1), &self.search) {
            (Some(next), _) => NextStep::Attempt(next.scope),
            (None, Some(_)) => NextStep::Search,
            (None, None) => NextStep::Retry,
        }
    }

    pub fn result(&self) -> SyncResult {
        if self
            .quarantine_retry
            .as_ref()
            .is_some_and(|retry| retry.left_damaged.is_some())
        {
            return SyncResult::Failed;
        }
        match (&self.search, self.attempts.last()) {
            (Some(search), _) => search.result(),
            (None, Some(Attempt { result: Err(_), .. })) => SyncResult::Failed,
            (None, _) => SyncResult::Applied,
        }
    }
}

impl NodeFault {
    /// Returns the fault with this failure as its cause.
    pub(super) fn because_of(failure: &Failure) -> Self {
        Self {
            cause: Some(failure.on_one_line()),
            is_transient: failure.is_transient(),
        }
    }
}

impl Failure {
    /// Returns the failure of a restore; `again` is the same payload from its beginning, and
    /// `rendered` the Services in it.
    pub(super) fn of_restore<'s, P: Payload>(
        error: RestoreError,
        again: impl Fn() -> P,
        rendered: impl Iterator<Item = (&'s ServiceName, &'s AppliedService)> + Clone,
    ) -> Self {
        let excerpt = match &error {
            RestoreError::Rejected { line, .. } => Some(excerpt(&mut again(), *line)),
            _ => None,
        };
        let rejected = excerpt.as_ref().and_then(|excerpt| {
            let mut lines = excerpt.lines.iter();
            lines.find(|(number, _)| *number == excerpt.line)
        });
        Self::Restore {
            named: rejected.and_then(|(_, line)| service_of_line(line, rendered)),
            is_untouched: is_untouched(&error, &mut again()),
            excerpt,
            error,
        }
    }

    /// Reports whether the kernel has nothing of the payload.
    pub(super) const fn is_untouched(&self) -> bool {
        match self {
            Self::Read(_) => true,
            Self::Restore { is_untouched, .. } => *is_untouched,
        }
    }

    /// Returns the kind of the failure, if a Service can cause it: not if the kernel could not be
    /// read.
    pub(super) const fn quarantine_cause(&self) -> Option<QuarantineCause> {
        match self {
            Self::Read(_) => None,
            Self::Restore { error, .. } => QuarantineCause::of(error),
        }
    }

    /// Returns the Service of the rejected line, if the failure names one.
    pub(super) const fn named(&self) -> Option<&ServiceName> {
        match self {
            Self::Read(_) => None,
            Self::Restore { named, .. } => named.as_ref(),
        }
    }

    fn is_transient(&self) -> bool {
        match self {
            Self::Read(error) => error.is_transient(),
            Self::Restore { error, .. } => error.is_independent_of_payload(),
        }
    }

    /// Returns the error message of the iptables binary on one line.
    pub(super) fn on_one_line(&self) -> String {
        let text = match self {
            Self::Read(error) => error.to_string(),
            Self::Restore { error, .. } => error.to_string(),
        };
        on_one_line(&text)
    }
}
