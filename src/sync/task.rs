//! Main loop of one IP family: waits for events, and runs syncs and checks.

use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::conntrack_sweeper::ConntrackSweeper;
use super::decide::{FullReason, Scope};
use super::drift_detection::DriftDetection;
use super::outcome::{Attempt, Outcome};
use super::pacer::{Pacer, RunTimes, SyncResult};
use super::problems::ServiceProblems;
use super::report::Reporter;
use super::syncer::Syncer;
use crate::conntrack;
use crate::host::{ForeignChange, Iptables, local_addresses, thread_cpu};
use crate::model::Change;
use crate::render::NodePortAddresses;
use crate::tracker::Tracker;
use crate::watch::ChangeReceiver;

/// Event that wakes the task.
enum TaskEvent {
    /// The cluster changed; contains all new changes.
    Changed(Vec<Change>),
    /// A sync is due.
    Due,
    /// A periodic check of the guarded chains is due.
    Check,
    /// Another program changed rules.
    RulesChanged(ForeignChange),
    /// A verification of all rules is due.
    Verify,
    /// The delayed repair of rules that another program keeps changing is due.
    Repair,
    /// Another read of rules that could not be read is due.
    Reread,
    /// The retry of a Service in quarantine is due.
    Retry,
    /// The process shuts down, or the source of changes has ended.
    Shutdown,
}

/// Task of one IP family, with all of its state.
pub(crate) struct Task<I> {
    /// Syncer, which owns the iptables binaries and the tracker.
    pub syncer: Syncer<I>,
    /// Schedule of syncs.
    pub pacer: Pacer,
    /// Reporter to logs, metrics, health and Events.
    pub reporter: Reporter,
    /// Sweeper of stale conntrack entries; `None` in a dry run.
    pub sweeper: Option<ConntrackSweeper>,
    /// Source of changes.
    pub changes: ChangeReceiver,
    /// Interval of checks of the guarded chains; `None` in a dry run.
    pub check_interval: Option<Duration>,
    /// Interval of verifications of all rules; `None`: they follow only failures and changes by
    /// other programs.
    pub verify_interval: Option<Duration>,
    /// Sent once, after the first applied sync.
    pub first_applied: Option<oneshot::Sender<()>>,
    /// Ends the task; the rules stay.
    pub stop: CancellationToken,
}

impl<I: Iptables> Task<I> {
    /// Keeps the rules in the kernel up to date until stopped. A running restore is finished
    /// first.
    pub(crate) async fn run(mut self) {
        self.reporter.serving();
        if self.syncer.tracker.is_synced() {
            // All objects were listed before the iptables binaries were usable.
            self.request_sync();
        }
        let now = Instant::now().into_std();
        let mut detection = DriftDetection::new(self.check_interval, self.verify_interval, now);
        let mut problems = ServiceProblems::default();
        loop {
            let event = match detection.pending_change.take() {
                Some(change) => TaskEvent::RulesChanged(change),
                None => self.next_event(&detection).await,
            };
            match event {
                TaskEvent::Changed(changes) => self.intake().take(changes),
                TaskEvent::Due => self.sync(&mut problems, &mut detection).await,
                TaskEvent::Check => self.check(&mut detection).await,
                TaskEvent::RulesChanged(change) => {
                    self.rules_changed(&mut detection, &change).await;
                }
                TaskEvent::Verify => self.verify(&mut detection).await,
                TaskEvent::Repair => {
                    detection.repair_at = None;
                    self.request_sync();
                }
                TaskEvent::Reread => self.reread(&mut detection).await,
                TaskEvent::Retry => self.intake().request_sync(),
                TaskEvent::Shutdown => return,
            }
        }
    }

    /// Waits for the next event. A due sync comes before further changes, so that frequent changes
    /// cannot delay it.
    async fn next_event(&mut self, detection: &DriftDetection) -> TaskEvent {
        let due = self.pacer.next_due().map(Instant::from_std);
        let check = detection.guarded_chains.next_check().map(Instant::from_std);
        let verify = detection.verifications.next().map(Instant::from_std);
        let repair = detection.repair_at.map(Instant::from_std);
        let reread = detection.reread_at.map(Instant::from_std);
        let next_change_check = detection.next_change_check.map(Instant::from_std);
        // The next sync includes a due retry, so it needs no request if a sync is pending.
        let is_sync_pending = self.pacer.awaits_sync();
        let retry = self.syncer.next_retry().filter(|_| !is_sync_pending);
        let retry = retry.map(Instant::from_std);
        tokio::select! {
            biased;
            () = self.stop.cancelled() => TaskEvent::Shutdown,
            () = until(due) => TaskEvent::Due,
            changes = self.changes.recv() => changes.map_or(TaskEvent::Shutdown, TaskEvent::Changed),
            // These come before changes by other programs, which may arrive without a pause.
            () = until(repair) => TaskEvent::Repair,
            () = until(check) => TaskEvent::Check,
            () = until(verify) => TaskEvent::Verify,
            () = until(reread) => TaskEvent::Reread,
            () = until(retry) => TaskEvent::Retry,
            change = changed(&self.syncer.iptables, next_change_check) => TaskEvent::RulesChanged(change),
        }
    }

    fn intake(&mut self) -> Intake<'_> {
        Intake {
            tracker: &mut self.syncer.tracker,
            pacer: &mut self.pacer,
            reporter: &self.reporter,
        }
    }

    /// Requests a sync.
    pub(super) fn request_sync(&mut self) {
        self.intake().request_sync();
    }

    /// Returns the addresses of the node, if syncs need them; otherwise none.
    pub(super) fn node_addresses(&self) -> Vec<IpAddr> {
        if self.syncer.needs_node_addresses() {
            self.reporter.addresses(local_addresses())
        } else {
            Vec::new()
        }
    }

    async fn sync(&mut self, problems: &mut ServiceProblems, detection: &mut DriftDetection) {
        let node_addresses = self.node_addresses();
        let before = self.node_port_addresses();
        self.reporter.began();
        let (started, used) = (Instant::now().into_std(), thread_cpu());
        let outcome = self.syncer.once(&node_addresses).await;
        let ended = Instant::now().into_std();
        let ran = RunTimes {
            started,
            ended,
            cpu: thread_cpu().saturating_sub(used),
        };
        self.pacer.finished(&ran, outcome.result());
        detection.guarded_chains.synced();
        let tracker = &self.syncer.tracker;
        self.reporter.finished(&outcome, tracker, ended);
        let applied = &outcome.applied.before;
        let found = problems.update(applied, tracker);
        self.reporter.problems(&found, problems);
        if let Some(addresses) = self.syncer.node_port_addresses() {
            self.reporter
                .health_check_ports(&outcome, tracker, addresses);
        }
        if outcome.result() == SyncResult::Applied
            && let Some(first) = self.first_applied.take()
        {
            // An error means that no receiver waits for it.
            let _ = first.send(());
        }
        let had_drift = outcome.result() == SyncResult::Applied && detection.repaired(ended);
        self.report_repair(detection);
        if outcome.result() == SyncResult::Applied
            && outcome
                .attempts
                .iter()
                .any(|attempt| attempt.result.is_err())
        {
            detection.verifications.request(ended);
        }
        let have_addresses_changed = before.is_some() && before != self.node_port_addresses();
        // While a jump or a chain was missing, packets did not traverse the rules.
        let were_rules_missing = have_addresses_changed || had_drift;
        self.request_sweep(&outcome, were_rules_missing);
    }

    /// Reports the repair of changed rules, once all of them are repaired.
    pub(super) fn report_repair(&self, detection: &mut DriftDetection) {
        if let Some(after) = detection.take_repair_time() {
            self.reporter.repaired(after);
        }
    }

    /// Returns the addresses of NodePorts in the rules in the kernel; `None` while its state is
    /// unknown.
    fn node_port_addresses(&self) -> Option<NodePortAddresses> {
        let applied_options = self.syncer.applied_options();
        applied_options.map(|options| options.node_port_addresses.clone())
    }

    /// Requests the deletion of stale conntrack entries. After a time with missing rules, such as
    /// those for NodePorts on a new address of the node, entries of any Service may be stale.
    fn request_sweep(&self, outcome: &Outcome, were_rules_missing: bool) {
        let (Some(sweeper), Some(options)) = (&self.sweeper, self.syncer.applied_options()) else {
            return;
        };
        let services = self.syncer.rendered_services();
        let were_missing = |attempt: &Attempt| {
            attempt.scope == Scope::Full(FullReason::Flushed) && attempt.result.is_ok()
        };
        let changed = &outcome.applied.before;
        let candidates = if were_rules_missing || outcome.attempts.iter().any(were_missing) {
            conntrack::all_candidates(&services, options)
        } else {
            conntrack::stale_candidates(changed, &services, options)
        };
        sweeper.request(
            self.reporter.family,
            candidates,
            &options.node_port_addresses,
        );
    }
}

/// Parts of a task that take changes of the cluster, even while a check borrows the other parts.
pub(super) struct Intake<'a> {
    pub(super) tracker: &'a mut Tracker,
    pub(super) pacer: &'a mut Pacer,
    pub(super) reporter: &'a Reporter,
}

impl Intake<'_> {
    /// Applies changes to the tracker, and requests a sync if one is needed.
    pub(super) fn take(&mut self, changes: Vec<Change>) {
        let was_synced = self.tracker.is_synced();
        let node = self.tracker.node().cloned();
        for change in changes {
            self.reporter.change(&change);
            self.tracker.apply(change);
        }
        self.reporter.pending(self.tracker);
        // The sync finds out whether a rule depends on the change of the Node.
        let is_node_new = self.tracker.node() != node.as_ref();
        if self.tracker.is_synced() && (self.tracker.has_pending() || is_node_new || !was_synced) {
            self.request_sync();
        }
    }

    pub(super) fn request_sync(&mut self) {
        let now = Instant::now().into_std();
        self.pacer.request(now);
        self.reporter.queued(now);
    }
}

/// Waits for a change by another program, but at least until `not_before`.
pub(super) async fn changed(
    iptables: &impl Iptables,
    not_before: Option<Instant>,
) -> ForeignChange {
    if let Some(moment) = not_before {
        sleep_until(moment).await;
    }
    iptables.changed().await
}

/// Waits for a moment; forever for `None`. Returns at once for one in the past: a timer would wait
/// for its next tick, a millisecond later.
pub(super) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) if moment <= Instant::now() => {}
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
