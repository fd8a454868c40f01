//! Checks of our rules in the kernel, as the task of a family makes them.
//!
//! Kept separate from [`task`](super::task), which decides what comes next.

use std::time::Duration;

use tokio::time::Instant;

use super::canary::CheckResult;
use super::checks::{Checks, Trigger};
use super::report::Compared;
use super::syncer::Syncer;
use super::task::{Intake, Task, until};
use super::verify::{Depth, Extent, Reading, read};
use crate::host::{ChangeSource, ForeignChange, Iptables, RunError, thread_cpu};

/// How long a sync that is due waits for a check under way. Most checks end within a second, and a
/// check that gave way to each sync would never end under lasting change.
const CHECK_PATIENCE: Duration = Duration::from_secs(5);

impl<I: Iptables> Task<I> {
    /// Checks for our fixed chains and jumps, unless changes are noticed otherwise. A sync is also
    /// due if NodePorts should answer on other addresses by now.
    pub(super) async fn check(&mut self, checks: &mut Checks) {
        let extent = checks.periodic(self.syncer.iptables.watched());
        let result = if extent.is_empty() || self.syncer.written().is_none() {
            CheckResult::default()
        } else {
            match self.compare(checks, Trigger::Period, &extent, None).await {
                Some(result) => result,
                None => return,
            }
        };
        let now = Instant::now().into_std();
        checks.canary.schedule(&result, now);
        if self.syncer.has_moved(&self.machine()) {
            self.request();
        }
    }

    /// Another program changed rules: compares what it touched.
    pub(super) async fn rules_changed(&mut self, checks: &mut Checks, change: &ForeignChange) {
        let Some(options) = self.syncer.written() else {
            // The next sync is full.
            return;
        };
        let extent = Extent::of(change, options);
        if extent.is_empty() {
            return;
        }
        let started = Instant::now().into_std();
        let trigger = Trigger::Change(change.source);
        self.compare(checks, trigger, &extent, Some(change)).await;
        checks.compared_change(started, Instant::now().into_std());
    }

    /// Compares all rules, unless the kernel says that no program has changed any.
    pub(super) async fn verify(&mut self, checks: &mut Checks) {
        let now = || Instant::now().into_std();
        let generation = self.syncer.iptables.generation();
        let is_known = self.syncer.written().is_some();
        if !is_known || checks.schedule.is_unchanged(generation) {
            checks.schedule.finished(Duration::ZERO, generation, now());
            return;
        }
        let used = thread_cpu();
        let trigger = checks.schedule.trigger();
        self.compare(checks, trigger, &Extent::whole(), None).await;
        let cpu = thread_cpu().saturating_sub(used);
        let generation = generation.filter(|_| checks.unread.is_empty());
        checks.schedule.finished(cpu, generation, now());
    }

    /// Reads that much of the kernel's rules, compares it with the applied ones, and asks for a
    /// sync that repairs the difference. `None`: the process ends.
    pub(super) async fn compare(
        &mut self,
        checks: &mut Checks,
        trigger: Trigger,
        extent: &Extent,
        change: Option<&ForeignChange>,
    ) -> Option<CheckResult> {
        let found_at = Instant::now().into_std();
        if self.syncer.has_unwritten() {
            // The applied state is ahead of the kernel until the lock is free.
            checks.postpone(extent.clone(), found_at);
            return Some(CheckResult::default());
        }
        let mut reading = self.read(checks, extent).await?;
        let unreadable = checks.canary.unreadable();
        self.reporter.checked(&reading.check, unreadable);
        for (table, cause) in &reading.check.newly_unreadable {
            if matches!(cause, RunError::Unprintable { .. }) {
                self.syncer.is_unprintable(*table);
            }
        }
        let mut drift = self.syncer.compare_with(&mut reading);
        if let Some(change) = change {
            drift.programs.clone_from(&change.programs);
        }
        let now = Instant::now().into_std();
        checks.postpone(std::mem::take(&mut reading.unread), now);
        let wait = checks.wait(std::mem::take(&mut drift.keys), now);
        self.reporter.compared(&Compared {
            trigger,
            depth: extent.depth,
            drift: &drift,
            failure: reading.failure.as_ref(),
            wait,
            contested: checks.backoff.contested(),
        });
        // Where it is not known what was changed, more than the fixed chains may be missing.
        let is_exact = trigger == Trigger::Change(ChangeSource::Events);
        if reading.check.is_incomplete() && !is_exact && extent.depth == Depth::Named {
            checks.schedule.soon(now);
        }
        if !drift.is_none() {
            checks.drifted_at.get_or_insert(found_at);
            let repair_at = now + wait;
            if wait.is_zero() {
                self.request();
            } else if checks.repair_at.is_none_or(|other| repair_at < other) {
                checks.repair_at = Some(repair_at);
            }
        }
        Some(reading.check)
    }

    /// Reads rules, with changes taken in meanwhile: the programs may hang for minutes. A reading
    /// under way gives way to a sync that has been due for [`CHECK_PATIENCE`]. `None`: the process
    /// ends.
    async fn read(&mut self, checks: &mut Checks, extent: &Extent) -> Option<Reading> {
        let started = Instant::now();
        let Syncer {
            tracker,
            iptables,
            written,
            ..
        } = &mut self.syncer;
        let Some(options) = written.as_ref() else {
            return Some(Reading::default());
        };
        let mut intake = Intake {
            tracker,
            pacer: &mut self.pacer,
            reporter: &self.reporter,
        };
        {
            let now = started.into_std();
            let reading = read(&mut checks.canary, iptables, options, extent, now);
            tokio::pin!(reading);
            loop {
                let due = intake.pacer.next_due().map(Instant::from_std);
                let patience = due.map(|due| due.max(started) + CHECK_PATIENCE);
                tokio::select! {
                    biased;
                    () = self.stop.cancelled() => return None,
                    reading = &mut reading => return Some(reading),
                    () = until(patience) => break,
                    changes = self.changes.recv() => intake.take(changes?),
                }
            }
        }
        let after = started.elapsed();
        let check = checks.canary.abandoned(after);
        Some(Reading::abandoned(extent, check, after))
    }
}
