//! Result of a sync, for logs, metrics and health: the sync itself neither logs nor counts.

use std::time::Duration;

use super::decide::Scope;
use super::isolation::{Isolation, Retry};
use super::pacer::End;
use crate::host::{CounterError, Excerpt, RestoreError, RunError};
use crate::model::ServiceName;
use crate::render::{DeclineReason, PayloadStats, RuleCounts, ServiceTotals};
use crate::rules::Table;
use crate::tracker::Settled;

/// Result of one sync: one attempt, or two if a partial one failed.
#[derive(Debug)]
pub struct Outcome {
    /// Attempts, in their order.
    pub attempts: Vec<Attempt>,
    /// Search for the Services because of which both failed.
    pub isolation: Option<Isolation>,
    /// Restore of a Service in quarantine, alone.
    pub retry: Option<Retry>,
    /// Changes that were applied. Empty after a failure.
    pub settled: Settled,
    /// Number of dirty Services.
    pub dirty: usize,
    /// Number of rules in the kernel that are ours.
    pub rules: RuleCounts,
    /// Totals of the Services of these rules.
    pub totals: ServiceTotals,
    /// Services in quarantine, sorted.
    pub quarantined: Vec<ServiceName>,
}

/// Restore, or the decision that none was needed.
#[derive(Debug)]
pub struct Attempt {
    /// Scope.
    pub scope: Scope,
    /// Time that it took, including rendering.
    pub took: Duration,
    /// Size of the payload.
    pub stats: PayloadStats,
    /// Text of the payload of a partial restore; a full one is never in memory as a whole.
    pub payload: Vec<u8>,
    /// Reason that rules name no counter, or only one; only when that is new.
    pub no_counter: Option<CounterError>,
    /// Tables that could not be read, with causes; only those that could be read before.
    pub unread: Vec<(Table, RunError)>,
    /// Reason that adoption was declined.
    pub declined: Option<DeclineReason>,
    /// Wait for the xtables lock, if it was acquired. A wait that timed out is in the error.
    pub lock_wait: Duration,
    /// Result.
    pub result: Result<(), Failure>,
}

/// Cause of a failed attempt.
#[derive(Debug)]
pub enum Failure {
    /// The rules in the kernel could not be read before a full restore.
    Save(RunError),
    /// The payload was not applied. The excerpt shows the rejected line.
    Restore(RestoreError, Option<Excerpt>),
}

impl Outcome {
    /// Returns whether the sync was applied.
    pub fn end(&self) -> End {
        if self.retry.as_ref().is_some_and(|retry| retry.is_lost) {
            return End::Failed;
        }
        match (&self.isolation, self.attempts.last()) {
            (Some(isolation), _) => isolation.end(),
            (None, Some(Attempt { result: Err(_), .. })) => End::Failed,
            (None, _) => End::Applied,
        }
    }
}

impl Failure {
    /// Returns the message of the program, on one line.
    pub(super) fn on_one_line(&self) -> String {
        let text = match self {
            Self::Save(error) => error.to_string(),
            Self::Restore(error, _) => error.to_string(),
        };
        text.trim().replace('\n', "; ")
    }
}
