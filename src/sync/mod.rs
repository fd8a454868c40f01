//! Syncs the rules of Services into the kernel: when and how much, with checks and repairs.
//!
//! Connects [`tracker`](crate::tracker), [`render`](crate::render) and the kernel. Each family
//! has its own task; neither waits for the other.
//!
//! # Invariants
//!
//! - All state of a family belongs to one task: no lock protects it.
//! - Changes that were not applied stay pending. A failed sync is an [`Outcome`]; the task goes
//!   on.
//! - One Service cannot block the others: a Service that makes restores fail is quarantined.
//!
//! # Source
//!
//! Upstream: pkg/proxy/iptables/proxier.go, pkg/proxy/runner (v1.36)
//! KEP: kep.k8s.io/3453

mod bisect;
mod checks;
mod conntrack_sweeper;
mod decide;
mod drift;
mod guarded_chain_check;
mod intake;
mod isolate;
mod kernel_state;
mod node_environment;
mod outcome;
mod pacer;
mod problems;
mod quarantine;
mod repair_backoff;
mod report;
mod report_text;
mod restore;
mod schedule;
mod subset;
mod syncer;
mod task;
mod task_checks;
mod verify;

#[cfg(test)]
mod tests;

pub(crate) use conntrack_sweeper::ConntrackSweeper;
#[cfg(test)]
pub(crate) use decide::SyncHistory;
pub use decide::{FullReason, Scope};
#[cfg(test)]
pub(crate) use drift::DriftKind;
pub use node_environment::{LocalMode, NodeEnvironment, NodePortSource};
pub(crate) use outcome::SyncMode;
pub use outcome::{Attempt, Failure, Outcome};
#[cfg(test)]
pub(crate) use outcome::{Isolation, Quarantined};
pub use pacer::SyncResult;
pub(crate) use pacer::{CpuBudget, Gap, Pacer, PacerOptions};
#[cfg(test)]
pub(crate) use quarantine::Fallback;
pub use quarantine::QuarantineCause;
pub(crate) use report::Reporter;
#[cfg(test)]
pub(crate) use schedule::CheckTrigger;
pub(crate) use syncer::Clock;
pub use syncer::{Syncer, SyncerOptions};
pub(crate) use task::Task;
