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
use super::report::{PlannedRetry, Reporter};
use super::syncer::Syncer;
use crate::conntrack;
use crate::host::{AddressWatch, ForeignChange, Iptables, local_addresses, thread_cpu};
use crate::model::Change;
use crate::render::NodePortAddresses;
use crate::tracker::Tracker;
use crate::watch::ChangeReceiver;

/// Event that wakes the task.
enum TaskEvent {
    /// The cluster changed; contains all new changes.
    ClusterChanged(Vec<Change>),
    /// A sync is due.
    SyncDue,
    /// A periodic check of the guarded chains is due.
    CheckDue,
    /// Addresses of this node may have changed, and syncs need them.
    AddressesChanged,
    /// Another program changed rules.
    RulesChanged(ForeignChange),
    /// A verification of all rules is due.
    VerificationDue,
    /// The delayed repair of rules that another program keeps changing is due.
    RepairDue,
    /// Another read of rules that could not be read is due.
    RereadDue,
    /// The retry of a Service in quarantine is due.
    QuarantineRetryDue,
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
    /// Watch of the addresses of this node; `None`: they are only checked with the guarded chains.
    pub address_watch: Option<AddressWatch>,
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
        if self.syncer.tracker.has_listed_all() {
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
                TaskEvent::ClusterChanged(changes) => self.intake().take(changes),
                TaskEvent::SyncDue => self.sync(&mut problems, &mut detection).await,
                TaskEvent::CheckDue => self.check_periodically(&mut detection).await,
                TaskEvent::AddressesChanged => self.check_addresses(),
                TaskEvent::RulesChanged(change) => {
                    self.rules_changed(&mut detection, &change).await;
                }
                TaskEvent::VerificationDue => self.verify(&mut detection).await,
                TaskEvent::RepairDue => {
                    detection.repair_at = None;
                    self.request_sync();
                }
                TaskEvent::RereadDue => self.reread(&mut detection).await,
                TaskEvent::QuarantineRetryDue => self.request_sync(),
                TaskEvent::Shutdown => return,
            }
        }
    }

    /// Waits for the next event. A due sync comes before further changes, so that frequent changes
    /// cannot delay it.
    async fn next_event(&mut self, detection: &DriftDetection) -> TaskEvent {
        let sync = self.pacer.next_due().map(Instant::from_std);
        let check = detection.guarded_chains.next_check().map(Instant::from_std);
        let verify = detection.verifications.next().map(Instant::from_std);
        let repair = detection.repair_at.map(Instant::from_std);
        let reread = detection.reread_at.map(Instant::from_std);
        let change_check_not_before = detection.change_check_not_before.map(Instant::from_std);
        // A sync retries a due Service in quarantine, so that needs no event if a sync is pending.
        let is_sync_pending = self.pacer.awaits_sync();
        let quarantine_retry = self.syncer.next_retry().filter(|_| !is_sync_pending);
        let quarantine_retry = quarantine_retry.map(Instant::from_std);
        // A sync reads the addresses, so that needs no event if one is pending.
        let address_watch = self.address_watch.as_ref();
        let address_watch =
            address_watch.filter(|_| !is_sync_pending && self.syncer.needs_node_addresses());
        tokio::select! {
            biased;
            () = self.stop.cancelled() => TaskEvent::Shutdown,
            () = until(sync) => TaskEvent::SyncDue,
            changes = self.changes.recv() => {
                changes.map_or(TaskEvent::Shutdown, TaskEvent::ClusterChanged)
            }
            // These come before changes by other programs, which may arrive without a pause.
            () = until(repair) => TaskEvent::RepairDue,
            () = until(check) => TaskEvent::CheckDue,
            () = until(verify) => TaskEvent::VerificationDue,
            () = until(reread) => TaskEvent::RereadDue,
            () = until(quarantine_retry) => TaskEvent::QuarantineRetryDue,
            () = addresses_changed(address_watch) => TaskEvent::AddressesChanged,
            change = changed(&self.syncer.iptables, change_check_not_before) => TaskEvent::RulesChanged(change),
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
        if !self.syncer.needs_node_addresses() {
            return Vec::new();
        }
        local_addresses().map_or_else(
            |cause| {
                self.reporter.addresses_unreadable(&cause);
                self.syncer.addresses_of_last_sync()
            },
            Vec::from_iter,
        )
    }

    /// Requests a sync if the addresses of NodePorts changed.
    pub(super) fn check_addresses(&mut self) {
        let addresses = self.node_addresses();
        if self.syncer.node_port_addresses_changed(&addresses) {
            self.request_sync();
        }
    }

    async fn sync(&mut self, problems: &mut ServiceProblems, detection: &mut DriftDetection) {
        let node_addresses = self.node_addresses();
        let has_synced = self.syncer.last_node_port_addresses().is_some();
        let addresses_before = self.applied_node_port_addresses();
        self.reporter.began();
        let (started, used) = (Instant::now().into_std(), thread_cpu());
        let outcome = self.syncer.once(&node_addresses).await;
        let ended = Instant::now().into_std();
        let ran = RunTimes {
            started,
            ended,
            cpu: thread_cpu().saturating_sub(used),
        };
        let is_applied = outcome.result() == SyncResult::Applied;
        let failures = self.pacer.failures();
        self.pacer.finished(&ran, outcome.result());
        detection.guarded_chains.synced();
        self.report_sync(&outcome, problems, ended);
        if is_applied && failures > 0 {
            self.reporter.recovered(failures);
        }
        if is_applied && let Some(first) = self.first_applied.take() {
            // An error means that no receiver waits for it.
            let _ = first.send(());
        }
        let had_drift = is_applied && detection.repaired(ended);
        self.report_repair(detection);
        // A failed restore may have changed more than its error shows.
        let has_failed = |attempt: &Attempt| attempt.result.is_err();
        if is_applied && outcome.attempts.iter().any(has_failed) {
            detection.verifications.request(ended);
        }
        // Also if they were unknown before, with the rules: a failed sync lost its candidates.
        let have_addresses_changed =
            has_synced && addresses_before != self.applied_node_port_addresses();
        let was_flushed = |attempt: &Attempt| {
            attempt.scope == Scope::Full(FullReason::Flushed) && attempt.result.is_ok()
        };
        // While rules were missing or changed, connections could get other endpoints, or none.
        let were_rules_missing =
            have_addresses_changed || had_drift || outcome.attempts.iter().any(was_flushed);
        self.request_sweep(&outcome, were_rules_missing);
    }

    /// Reports the end of a sync to logs, metrics, health, Events and the servers of health check
    /// node ports.
    fn report_sync(
        &self,
        outcome: &Outcome,
        problems: &mut ServiceProblems,
        ended: std::time::Instant,
    ) {
        let tracker = &self.syncer.tracker;
        let retry = (outcome.result() == SyncResult::Failed).then(|| {
            let next = self.pacer.next_due().unwrap_or(ended);
            PlannedRetry {
                failed_syncs: self.pacer.failures(),
                delay: next.saturating_duration_since(ended),
            }
        });
        self.reporter.finished(outcome, tracker, ended, retry);
        let found = problems.update(&outcome.applied.before, tracker);
        self.reporter.problems(&found, problems);
        if let Some(addresses) = self.syncer.last_node_port_addresses() {
            self.reporter
                .health_check_ports(outcome, tracker, addresses);
        }
    }

    /// Reports the repair of changed rules, once all of them are repaired.
    pub(super) fn report_repair(&self, detection: &mut DriftDetection) {
        if let Some(after) = detection.take_repair_time() {
            self.reporter.repaired(after);
        }
    }

    /// Returns the addresses of NodePorts in the rules in the kernel; `None` while its state is
    /// unknown.
    fn applied_node_port_addresses(&self) -> Option<NodePortAddresses> {
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
        let before = &outcome.applied.before;
        let candidates = if were_rules_missing {
            conntrack::all_candidates(before, &services, options)
        } else {
            conntrack::stale_candidates(before, &services, options)
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
        let had_listed_all = self.tracker.has_listed_all();
        let node = self.tracker.node().cloned();
        for change in changes {
            self.reporter.change(&change);
            self.tracker.apply(change);
        }
        self.reporter.pending(self.tracker);
        // The sync finds out whether a rule depends on the change of the Node.
        let is_node_new = self.tracker.node() != node.as_ref();
        if self.tracker.has_listed_all()
            && (self.tracker.has_pending() || is_node_new || !had_listed_all)
        {
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

/// Waits until addresses of this node may have changed; forever without a watch.
async fn addresses_changed(watch: Option<&AddressWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
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
