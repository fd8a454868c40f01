//! Syncs the rules of Services into the kernel, and checks and repairs what was written.
//!
//! Each IP family has a task that owns all of its state, without a mutex. Neither waits for the
//! other, except for the xtables lock on legacy. A failed sync is an [`Outcome`], no panic.
//!
//! Read `task` (main loop) and `syncer` (one sync) first; for failures `search`; for checks
//! `kernel` and `drift_detection`; for when and how much to write `schedule`.
//!
//! The crate's documentation explains the words.
//!
//! Upstream: pkg/proxy/iptables/proxier.go, pkg/proxy/runner (v1.37); KEP: kep.k8s.io/3453

mod answers;
mod drift_detection;
mod kernel;
mod outcome;
mod problems;
mod quarantine;
mod report;
mod report_drift;
mod report_history;
mod schedule;
mod search;
mod syncer;
mod task;

#[cfg(test)]
pub(crate) mod tests;

#[cfg(test)]
pub(crate) use kernel::{ComparisonTrigger, DriftKind};
pub(crate) use outcome::SyncMode;
pub use outcome::{Attempt, Failure, Outcome};
#[cfg(test)]
pub(crate) use outcome::{Notices, Quarantined, SearchResult};
#[cfg(test)]
pub(crate) use quarantine::Fallback;
pub use quarantine::QuarantineCause;
pub(crate) use report::Reporter;
#[cfg(test)]
pub(crate) use schedule::SyncHistory;
pub(crate) use schedule::{CpuBudget, Gap, Pacer, PacerOptions, RerenderReason, RunTimes};
pub use schedule::{FullReason, Scope, SyncResult};
pub(crate) use syncer::Clock;
pub use syncer::{Syncer, SyncerOptions};
pub(crate) use task::Task;
