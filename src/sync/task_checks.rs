//! Runs checks and verifications of the rules in the kernel, for the task of a family.
//!
//! Kept separate from [`task`](super::task), which decides what runs next.

use std::time::Duration;

use tokio::sync::SetOnce;
use tokio::time::Instant;

use super::checks::Checks;
use super::drift::{Compared, ComparisonDepth, Extent};
use super::guarded_chain_check::CheckResult;
use super::intake::Intake;
use super::pacer::RunTimes;
use super::schedule::CheckTrigger;
use super::syncer::Syncer;
use super::task::{Task, changed, until};
use super::verify::{Reading, check_guarded_chains, read_others};
use crate::host::{ChangeSource, ForeignChange, Iptables, RunError, thread_cpu};

/// Maximum delay of a due sync by a running check. Most checks end within a second, and a check
/// that every sync interrupted would never end under continuous changes.
const CHECK_PATIENCE: Duration = Duration::from_secs(5);

/// Reaction of a reading to a change by another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnChange {
    /// Continues: the change is checked after the reading.
    ReadOn,
    /// Ends the reading, and restarts it after the check of the changed chains, which is short.
    GiveWay,
}

/// End of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadingEnd {
    Complete,
    /// A change by another program is checked first.
    GaveWay,
    /// A due sync was delayed for too long.
    Abandoned,
}

impl ReadingEnd {
    /// Returns the part of a reading that can be compared after this end.
    fn result(
        self,
        reading: Reading,
        checks: &mut Checks,
        extent: &Extent,
        after: Duration,
    ) -> Reading {
        match self {
            Self::Complete => reading,
            Self::GaveWay => reading.interrupted(),
            Self::Abandoned => {
                let check = checks.guarded_chains.abandoned(after);
                Reading::abandoned(extent, check, after)
            }
        }
    }
}

/// Cause of an incomplete comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interruption {
    /// A change by another program is checked first.
    GaveWay,
    /// The process shuts down.
    Stopped,
}

impl<I: Iptables> Task<I> {
    /// Checks fixed chains and jumps, unless the kernel reports changes. Also requests a sync if
    /// the addresses of NodePorts changed.
    pub(super) async fn check(&mut self, checks: &mut Checks) {
        let extent = checks.periodic(self.syncer.iptables.change_detection());
        let result = if extent.is_empty() || self.syncer.written().is_none() {
            CheckResult::default()
        } else {
            match self
                .compare(checks, CheckTrigger::Period, &extent, None)
                .await
            {
                Ok(result) => result,
                Err(_) => return,
            }
        };
        let now = Instant::now().into_std();
        checks.guarded_chains.schedule(&result, now);
        if self
            .syncer
            .node_port_addresses_changed(&self.node_addresses())
        {
            self.request();
        }
    }

    /// Compares the chains that another program touched. If they are not known by name, it
    /// compares the fixed chains, which a flush also empties, and schedules a verification.
    pub(super) async fn rules_changed(&mut self, checks: &mut Checks, change: &ForeignChange) {
        let Some(options) = self.syncer.written() else {
            // The next sync is full.
            return;
        };
        let mut extent = Extent::of_ours(change, options, &self.syncer.applied);
        if extent.is_empty() {
            return;
        }
        let started = Instant::now().into_std();
        let trigger = CheckTrigger::Change(change.source);
        // A change of table sizes names no chain, so nothing could interrupt a verification.
        let is_verified_next =
            extent.depth == ComparisonDepth::Whole && change.source != ChangeSource::TableSizes;
        if is_verified_next {
            extent.depth = ComparisonDepth::Named;
        }
        let compared = self.compare(checks, trigger, &extent, Some(change)).await;
        let now = Instant::now().into_std();
        checks.compared_change(started, now);
        if is_verified_next && compared.is_ok_and(|result| result.gone.is_none()) {
            checks.schedule.changed(change, now);
        }
    }

    /// Compares all rules, unless the generation of the ruleset shows that none changed.
    pub(super) async fn verify(&mut self, checks: &mut Checks) {
        let now = || Instant::now().into_std();
        let (started, used) = (now(), thread_cpu());
        let ran = || RunTimes {
            started,
            ended: now(),
            cpu: thread_cpu().saturating_sub(used),
        };
        let generation = self.syncer.iptables.generation();
        let is_known = self.syncer.written().is_some();
        if !is_known || checks.schedule.is_unchanged(generation) {
            checks.schedule.finished(&ran(), generation);
            return;
        }
        let trigger = checks.schedule.trigger();
        let whole = Extent::whole();
        let compared = self.compare(checks, trigger, &whole, None).await;
        if compared.err() == Some(Interruption::GaveWay) {
            // The CPU time of a killed child is not counted, so the wall clock stands in for it.
            let took = now().saturating_duration_since(started);
            checks.schedule.gave_way(took, now());
            return;
        }
        let generation = generation.filter(|_| checks.has_read_all);
        checks.schedule.finished(&ran(), generation);
        self.report_repair(checks);
    }

    /// Reads the rules again that could not be read.
    pub(super) async fn reread(&mut self, checks: &mut Checks) {
        let extent = checks.take_unread();
        let compared = self
            .compare(checks, CheckTrigger::FollowUp, &extent, None)
            .await;
        if compared.err() == Some(Interruption::GaveWay) {
            checks.postpone(extent, Instant::now().into_std());
        }
    }

    /// Reads the rules of an extent, compares them with the applied ones, and requests a sync that
    /// repairs the difference.
    pub(super) async fn compare(
        &mut self,
        checks: &mut Checks,
        trigger: CheckTrigger,
        extent: &Extent,
        change: Option<&ForeignChange>,
    ) -> Result<CheckResult, Interruption> {
        let found_at = Instant::now().into_std();
        checks.has_read_all = false;
        if self.syncer.has_unwritten() {
            // The applied state is ahead of the kernel until the rest of a restore is written.
            checks.postpone(extent.clone(), found_at);
            return Ok(CheckResult::default());
        }
        let is_verification = change.is_none() && extent.depth == ComparisonDepth::Whole;
        let on_change = if is_verification && checks.schedule.may_give_way() {
            OnChange::GiveWay
        } else {
            OnChange::ReadOn
        };
        let mut reading = self.read(checks, extent, on_change).await?;
        let unreadable = checks.guarded_chains.unreadable();
        self.reporter.checked(&reading.check, unreadable);
        for (table, cause) in &reading.check.newly_unreadable {
            if matches!(cause, RunError::Unprintable { .. }) {
                self.syncer.mark_unprintable(*table);
            }
        }
        let contested = checks.backoff.contested(found_at);
        let mut drift = self.syncer.compare_with(&mut reading, &contested);
        let programs = change.map_or(checks.schedule.programs(), |change| &change.programs);
        drift.programs.clone_from(programs);
        let now = Instant::now().into_std();
        checks.has_read_all = reading.failure.is_none() && reading.unread.is_empty();
        checks.postpone(std::mem::take(&mut reading.unread), now);
        let wait = checks.wait(std::mem::take(&mut drift.keys), now);
        let failed_readings = checks.count_failed_readings(extent.depth, reading.failure.as_ref());
        self.reporter.compared(&Compared {
            trigger,
            depth: extent.depth,
            drift: &drift,
            failure: reading.failure.as_ref(),
            failed_readings,
            wait,
            delayed: checks.backoff.delayed(),
        });
        // If the changed chains are unknown, rules of Services may be missing as well. After lost
        // events a verification follows anyway.
        let is_exact = matches!(
            trigger,
            CheckTrigger::Change(ChangeSource::Events | ChangeSource::LostEvents)
        );
        if reading.check.is_incomplete() && !is_exact && extent.depth == ComparisonDepth::Named {
            checks.schedule.soon(now);
        }
        if !drift.is_none() {
            checks.found_drift(found_at);
            let repair_at = now + wait;
            if wait.is_zero() {
                self.request();
            } else if checks.repair_at.is_none_or(|other| repair_at < other) {
                checks.repair_at = Some(repair_at);
            }
        }
        if reading.gave_way {
            return Err(Interruption::GaveWay);
        }
        Ok(reading.check)
    }

    /// Reads rules, and receives changes of the cluster meanwhile: the programs may hang for
    /// minutes. The reading is abandoned for a sync that has been due for [`CHECK_PATIENCE`].
    async fn read(
        &mut self,
        checks: &mut Checks,
        extent: &Extent,
        on_change: OnChange,
    ) -> Result<Reading, Interruption> {
        let started = Instant::now();
        let Syncer {
            tracker,
            iptables,
            written,
            applied,
            ..
        } = &mut self.syncer;
        let Some(options) = written.as_ref() else {
            return Ok(Reading::default());
        };
        let mut intake = Intake {
            tracker,
            pacer: &mut self.pacer,
            reporter: &self.reporter,
        };
        let mut reading = Reading::default();
        let checked = SetOnce::new();
        let not_before = checks.next_change_check.map(Instant::from_std);
        let gives_way = on_change == OnChange::GiveWay;
        let end = {
            let work = async {
                let guarded_chains = &mut checks.guarded_chains;
                reading = check_guarded_chains(
                    guarded_chains,
                    iptables,
                    options,
                    extent,
                    started.into_std(),
                )
                .await;
                // Cannot fail: it is set only here.
                let _ = checked.set(());
                read_others(&mut reading, iptables, extent).await;
            };
            tokio::pin!(work);
            loop {
                let due = intake.pacer.next_due().map(Instant::from_std);
                let patience = due.map(|due| due.max(started) + CHECK_PATIENCE);
                let takes_changes = gives_way && checks.pending_change.is_none();
                tokio::select! {
                    biased;
                    () = self.stop.cancelled() => return Err(Interruption::Stopped),
                    () = &mut work => break ReadingEnd::Complete,
                    () = until(patience) => break ReadingEnd::Abandoned,
                    changes = self.changes.recv() => match changes {
                        Some(changes) => intake.take(changes),
                        None => return Err(Interruption::Stopped),
                    },
                    change = changed_after(&checked, iptables, not_before), if takes_changes => {
                        let ours = Extent::of_ours(&change, options, applied);
                        if keep(&mut checks.pending_change, change, &ours) {
                            break ReadingEnd::GaveWay;
                        }
                    }
                }
            }
        };
        Ok(end.result(reading, checks, extent, started.elapsed()))
    }
}

/// Waits for a change by another program, after the check of fixed chains is complete.
async fn changed_after(
    checked: &SetOnce<()>,
    iptables: &impl Iptables,
    not_before: Option<Instant>,
) -> ForeignChange {
    checked.wait().await;
    changed(iptables, not_before).await
}

/// Keeps a change for after the reading, unless it touched no kube-proxy chain: on some nodes such
/// changes are frequent. Reports whether the reading gives way to it.
fn keep(pending: &mut Option<ForeignChange>, change: ForeignChange, ours: &Extent) -> bool {
    let gives_way = change.is_exact();
    if ours.is_empty() {
        return false;
    }
    *pending = Some(change);
    gives_way
}
