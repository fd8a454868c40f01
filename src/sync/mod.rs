//! Syncs the rules of Services into the kernel, and checks and repairs what was written.
//!
//! Each IP family has a task that owns all of its state, without a mutex. Neither waits for the
//! other, except for the xtables lock on legacy. A failed sync is an [`Outcome`], no panic.
//!
//! Read `task` (main loop) and `syncer` (one sync) first; for checks `reading` and `drift`, for
//! failures `search`, `bisect` and `trial_restore`.
//!
//! - kube-proxy chain: has a name that kube-proxy uses, whichever program made it. kube-proxy rule:
//!   a rule in such a chain, or a jump to one.
//! - Fixed chain: has rules that depend on render options alone, not on Services.
//! - Dispatch chain: rules of many Services (`KUBE-SERVICES`). Tree chain: part of one, for rules
//!   whose addresses or ports begin with the same bits. Comparisons count it as a dispatch chain.
//! - Guarded chain: a fixed chain, a canary, or a built-in chain with jumps to kube-proxy chains.
//! - Render options: inputs of rules apart from Services.
//! - Frontend: address, port and protocol that a Service claims. Lost: another Service gets it.
//! - Dirty Service: its objects or lost frontends changed since it was last applied. Damaged chain:
//!   recorded, but found changed or missing. Due Service: each payload renders it, because a chain
//!   of it is damaged or its changes were rendered and not written.
//! - Override: state of a Service that is rendered in place of its state in the cluster.
//! - Sync: one or two attempts to apply all dirty Services; then a search or a quarantine retry.
//!   An attempt is full, partial or an adoption, with at most one restore (`iptables-restore`).
//! - Adoption: takes the rules in the kernel as the applied state, before any restore succeeded.
//! - Applied state: record of the rules in the kernel. Drift: how the kernel differs from it, or it
//!   from all Services as rendered. Last applied state of a Service: the objects that its rules in
//!   the kernel were rendered from.
//! - Comparison: finds drift. It is a check (of guarded chains, or of chains that another program
//!   changed) or a verification (of all rules). Reading: its part that runs iptables binaries.
//! - Search: trial restores that find the Services that make restores fail. Suspect: may be one.
//! - Quarantine: Services found, which block no others; trial restores retry their changes.
//! - Detection by table sizes, on legacy iptables: shows that a table changed, not which chains.
//! - Unprintable: a rule that an iptables binary cannot print, and its chain and table.
//!
//! Upstream: pkg/proxy/iptables/proxier.go, pkg/proxy/runner (v1.37); KEP: kep.k8s.io/3453

mod bisect;
mod decide;
mod drift;
mod drift_detection;
mod guarded_chain_monitor;
mod outcome;
mod pacer;
mod problems;
mod quarantine;
mod reading;
mod report;
mod report_drift;
mod search;
mod syncer;
mod task;
mod trial_restore;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use decide::SyncHistory;
pub use decide::{FullReason, Scope};
#[cfg(test)]
pub(crate) use drift::{ComparisonTrigger, DriftKind};
pub(crate) use outcome::SyncMode;
pub use outcome::{Attempt, Failure, Outcome};
#[cfg(test)]
pub(crate) use outcome::{Notices, Quarantined, SearchResult};
pub use pacer::SyncResult;
pub(crate) use pacer::{CpuBudget, DoublingDelay, Gap, Pacer, PacerOptions};
#[cfg(test)]
pub(crate) use quarantine::Fallback;
pub use quarantine::QuarantineCause;
pub(crate) use report::Reporter;
pub(crate) use syncer::Clock;
pub use syncer::{Syncer, SyncerOptions};
pub(crate) use task::Task;
