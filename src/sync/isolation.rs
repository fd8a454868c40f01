//! Result of a search for Services that make restores fail, and of a retry of one of them.
//!
//! Kept separate from [`isolate`](super::isolate), which searches, because logs, metrics and
//! health read it.

use std::time::Duration;

use super::outcome::Failure;
use super::pacer::End;
use super::quarantine::{Cause, Fallback};
use crate::model::ServiceName;

/// A search for Services that make restores fail.
#[derive(Debug, Default)]
pub struct Isolation {
    /// Restores made by the search.
    pub restores: usize,
    /// Those of them that failed.
    pub failed: usize,
    /// Services put into quarantine.
    pub quarantined: Vec<Quarantined>,
    /// Services that were neither applied nor found to fail; they stay dirty.
    pub unresolved: Vec<ServiceName>,
    /// No Service is the cause. No change of the sync was applied.
    pub is_environment: bool,
    /// Rules that were read in place of a full restore may hold stale chains.
    pub(super) is_adopted: bool,
}

impl Isolation {
    pub(super) const fn end(&self) -> End {
        if self.is_environment || !self.unresolved.is_empty() {
            End::Failed
        } else {
            End::Applied
        }
    }
}

/// A Service put into quarantine.
#[derive(Debug)]
pub struct Quarantined {
    /// The Service.
    pub name: ServiceName,
    /// Failure of its restore.
    pub cause: Cause,
    /// Message of the program.
    pub error: String,
    /// Rules of the Service in the kernel.
    pub fallback: Fallback,
}

/// A restore of a Service in quarantine, alone.
#[derive(Debug)]
pub struct Retry {
    /// The Service.
    pub name: ServiceName,
    /// Restores made, with that of everything else if it is not known how far the first one came.
    pub restores: usize,
    /// Those of them that failed.
    pub failed: usize,
    /// The time that it was in quarantine, if it is out of it; or the failure of the restore,
    /// unless the environment was at fault.
    pub result: Result<Duration, Option<Failure>>,
    /// The state of the kernel is unknown.
    pub is_lost: bool,
}
