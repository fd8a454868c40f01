//! Syncs the rules of Services into the kernel, and checks and repairs what was written.
//!
//! Each IP family has a task that owns all of its state, without a mutex. Neither waits for the
//! other, except for the xtables lock on legacy. A failed sync is an [`Outcome`], no panic.
//!
//! Read `task` (main loop) and `syncer` (one sync) first; for failures `search`; for checks
//! `kernel`, `guarded_chain_monitor` for fixed chains and entry jumps, and `drift_detection` for
//! when a repair is due.
//!
//! The crate's documentation explains the words.
//!
//! Upstream: pkg/proxy/iptables/proxier.go, pkg/proxy/runner (v1.37); KEP: kep.k8s.io/3453

mod answers;
mod attempt;
mod drift_detection;
mod guarded_chain_monitor;
mod kernel;
mod pacer;
mod problems;
mod quarantine;
mod report;
mod report_drift;
mod report_history;
mod search;
mod syncer;
mod task;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use attempt::SyncMode;
pub use attempt::{Attempt, Failure, FullReason, Outcome, Scope};
#[cfg(test)]
pub(crate) use attempt::{Notices, Quarantined, SearchResult, SyncHistory};
#[cfg(test)]
pub(crate) use kernel::{ComparisonTrigger, DriftKind};
pub use pacer::SyncResult;
pub(crate) use pacer::{CpuBudget, Gap, Pacer, PacerOptions, RunTimes};
#[cfg(test)]
pub(crate) use quarantine::Fallback;
pub use quarantine::QuarantineCause;
pub(crate) use report::Reporter;
pub(crate) use syncer::Clock;
pub use syncer::{Syncer, SyncerOptions};
pub(crate) use task::Task;
