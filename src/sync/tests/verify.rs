//! Comparisons of the rules in the kernel without a task.

use std::collections::BTreeSet;
use std::time::Instant;

use super::{KernelState, Syncer};
use crate::host::{Iptables, RunError};
use crate::sync::drift_detection::{GuardedChainMonitor, check_guarded_chains};
use crate::sync::kernel::{Drift, Extent, read_chains};
use crate::sync::schedule::RepairKey;

impl<I: Iptables> Syncer<I> {
    /// Verifies all rules in the kernel after a sync that was applied, for tests. Returns what
    /// differs, or why nothing was compared.
    pub async fn verify(&mut self) -> String {
        // No call of the clock: with that of a test, each takes time.
        let (true, Some(now)) = (self.kernel.record().is_some(), self.history.last_full) else {
            return "the rules in the kernel are unknown".to_owned();
        };
        let (drift, failure) = self
            .read_and_compare(&Extent::whole(), &BTreeSet::new(), now)
            .await;
        if let Some(failure) = failure {
            return failure.to_string();
        }
        if drift.is_empty() {
            return String::new();
        }
        format!(
            "{:?} {} {}",
            drift.counts,
            drift.chain_names(),
            drift.service_names()
        )
    }

    /// Reads and compares an extent without a task, and returns the failure to read, for tests.
    pub(in crate::sync) async fn read_and_compare(
        &mut self,
        extent: &Extent,
        contested: &BTreeSet<RepairKey>,
        now: Instant,
    ) -> (Drift, Option<RunError>) {
        let KernelState::Known(applied, options) = &self.kernel else {
            return (Drift::default(), None);
        };
        let mut monitor = GuardedChainMonitor::new(None, now);
        let mut reading =
            check_guarded_chains(&mut monitor, &self.iptables, options, extent, now).await;
        read_chains(&mut reading, &self.iptables, extent, applied).await;
        let unreadable = &self.unreadable_tables;
        let drift = self
            .kernel
            .note_drift(&mut reading, contested, unreadable, &self.tracker);
        (drift, reading.failure)
    }
}
