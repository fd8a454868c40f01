//! Syncs rules: decides when and how much, restores, checks, repairs, and handles failures.
//!
//! Connects [`tracker`](crate::tracker), [`render`](crate::render) and the kernel. Each family
//! has a task of its own; neither waits for the other.
//!
//! # Invariants
//!
//! - All state of a family belongs to one task: there is no lock around it.
//! - Changes that were not applied are not settled. A failure is an [`Outcome`] and ends nothing.
//! - One Service cannot stop the others: one that makes restores fail is quarantined.
//!
//! # Source
//!
//! Upstream: pkg/proxy/iptables/proxier.go, pkg/proxy/runner (v1.36)
//! KEP: kep.k8s.io/3453

mod backoff;
mod bisect;
mod budget;
mod canary;
mod change_channel;
mod checks;
mod committed;
mod decide;
mod drift;
mod edited;
mod extent;
mod flows;
mod inspect;
mod isolate;
mod isolation;
mod outcome;
mod pacer;
mod problems;
mod quarantine;
mod report;
mod report_text;
mod restore;
mod schedule;
mod subset;
mod surroundings;
mod syncer;
mod table_check;
mod task;
mod task_checks;
mod verify;
mod view;

#[cfg(test)]
mod tests;

pub use budget::{CpuBudget, Ran};
pub use change_channel::{ChangeReceiver, ChangeSender, change_channel};
pub use decide::{FullReason, History, Scope};
pub use drift::DriftKind;
pub use flows::FlowSweeper;
pub use isolation::{Isolation, Quarantined, Retry};
pub use outcome::{Attempt, Failure, Outcome};
pub use pacer::{End, Gap, Pacer, PacerOptions};
pub use quarantine::{Cause, Fallback};
pub use report::Reporter;
pub use schedule::Trigger;
pub use surroundings::{LocalMode, NodePortSource, Surroundings};
pub use syncer::{Clock, Syncer, SyncerOptions};
pub use task::Task;
