//! What a sync did, for those who log, count and judge it.
//!
//! Apart so that the sync itself neither logs nor counts.

use std::time::Duration;

use super::decide::Scope;
use super::isolation::{Isolation, Retry};
use super::pacer::End;
use crate::host::{Excerpt, NoCounter, RestoreError, RunError};
use crate::model::ServiceName;
use crate::render::{Doubt, PayloadStats, RuleCounts, Tally};
use crate::rules::Table;
use crate::tracker::Settled;

/// One sync: one attempt, or two if a partial one failed.
#[derive(Debug)]
pub struct Outcome {
    /// In the order made.
    pub attempts: Vec<Attempt>,
    /// The search for Services because of which both failed.
    pub isolation: Option<Isolation>,
    /// A restore of a Service in quarantine, alone.
    pub retry: Option<Retry>,
    /// What is in the kernel now and was not. Empty after a failure.
    pub settled: Settled,
    /// How many Services were dirty.
    pub dirty: usize,
    /// How many rules are ours now.
    pub rules: RuleCounts,
    /// What the Services amount to that these rules are for.
    pub tally: Tally,
    /// The Services in quarantine, sorted.
    pub quarantined: Vec<ServiceName>,
}

/// One restore, or the decision that none was needed.
#[derive(Debug)]
pub struct Attempt {
    /// How much was restored.
    pub scope: Scope,
    /// How long it took, rendering included.
    pub took: Duration,
    /// What was given to the kernel.
    pub stats: PayloadStats,
    /// The payload's text, of a partial restore only: a full one is never held whole.
    pub payload: Vec<u8>,
    /// Why rules do without a counter, or without both; only when that is new.
    pub no_counter: Option<NoCounter>,
    /// The tables that could not be read, and why; only those that could be before.
    pub unread: Vec<(Table, RunError)>,
    /// Why the rules that were there have not been taken over.
    pub doubt: Option<Doubt>,
    /// How long others kept the lock until it was had. How long it was waited for in vain, the
    /// error says.
    pub lock_wait: Duration,
    /// How it ended.
    pub result: Result<(), Failure>,
}

/// Why an attempt failed.
#[derive(Debug)]
pub enum Failure {
    /// The kernel's rules could not be read before a full restore.
    Save(RunError),
    /// The payload is not in the kernel. The excerpt shows the refused line.
    Restore(RestoreError, Option<Excerpt>),
}

impl Outcome {
    /// How the sync ended.
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
    /// The words of the program, on one line.
    pub(super) fn on_one_line(&self) -> String {
        let text = match self {
            Self::Save(error) => error.to_string(),
            Self::Restore(error, _) => error.to_string(),
        };
        text.trim().replace('\n', "; ")
    }
}
