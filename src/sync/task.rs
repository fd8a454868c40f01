//! Main loop of one family: waits for events, and runs syncs and checks.

use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::checks::Checks;
use super::conntrack_sweeper::ConntrackSweeper;
use super::decide::{FullReason, Scope};
use super::intake::Intake;
use super::outcome::{Attempt, Outcome};
use super::pacer::{Pacer, RunTimes, SyncResult};
use super::problems::ServiceProblems;
use super::report::Reporter;
use super::syncer::Syncer;
use crate::conntrack;
use crate::host::{ForeignChange, Iptables, local_addresses, thread_cpu};
use crate::model::Change;
use crate::render::NodePortAddresses;
use crate::watch::ChangeReceiver;

/// Event that wakes the task.
enum TaskEvent {
    /// The cluster changed; contains all new changes.
    Changed(Vec<Change>),
    /// A sync is due.
    Due,
    /// A periodic check of fixed chains and jumps is due.
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

/// Task of one family, with all of its state.
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
    /// Interval of checks of fixed chains and jumps; `None` in a dry run.
    pub check_interval: Option<Duration>,
    /// Interval of verifications of all rules; `None`: only after failures, and after changes by
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
            self.request();
        }
        let now = Instant::now().into_std();
        let mut checks = Checks::new(self.check_interval, self.verify_interval, now);
        let mut problems = ServiceProblems::default();
        loop {
            let event = match checks.pending_change.take() {
                Some(change) => TaskEvent::RulesChanged(change),
                None => self.next_event(&checks).await,
            };
            match event {
                TaskEvent::Changed(changes) => self.intake().take(changes),
                TaskEvent::Due => self.sync(&mut problems, &mut checks).await,
                TaskEvent::Check => self.check(&mut checks).await,
                TaskEvent::RulesChanged(change) => self.rules_changed(&mut checks, &change).await,
                TaskEvent::Verify => self.verify(&mut checks).await,
                TaskEvent::Repair => {
                    checks.repair_at = None;
                    self.request();
                }
                TaskEvent::Reread => self.reread(&mut checks).await,
                TaskEvent::Retry => self.intake().request(),
                TaskEvent::Shutdown => return,
            }
        }
    }

    /// Waits for the next event. A due sync comes before further changes, so that frequent changes
    /// cannot delay it.
    async fn next_event(&mut self, checks: &Checks) -> TaskEvent {
        let due = self.pacer.next_due().map(Instant::from_std);
        let check = checks.guarded_chains.next_check().map(Instant::from_std);
        let verify = checks.schedule.next().map(Instant::from_std);
        let repair = checks.repair_at.map(Instant::from_std);
        let reread = checks.reread_at.map(Instant::from_std);
        let next_change_check = checks.next_change_check.map(Instant::from_std);
        // The next sync includes a due retry, so a pending sync makes a request needless.
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

    pub(super) fn request(&mut self) {
        self.intake().request();
    }

    pub(super) fn node_addresses(&self) -> Vec<IpAddr> {
        if self.syncer.needs_node_addresses() {
            self.reporter.addresses(local_addresses())
        } else {
            Vec::new()
        }
    }

    async fn sync(&mut self, problems: &mut ServiceProblems, checks: &mut Checks) {
        let node_addresses = self.node_addresses();
        let before = self.node_ports();
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
        if !outcome.attempts.is_empty() {
            checks.guarded_chains.restored();
        }
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
        let had_drift = outcome.result() == SyncResult::Applied && checks.repaired(ended);
        self.report_repair(checks);
        if outcome.result() == SyncResult::Applied
            && outcome
                .attempts
                .iter()
                .any(|attempt| attempt.result.is_err())
        {
            checks.schedule.soon(ended);
        }
        let have_addresses_changed = before.is_some() && before != self.node_ports();
        // While a jump or a chain was missing, packets did not traverse the rules.
        let were_rules_missing = have_addresses_changed || had_drift;
        self.request_sweep(&outcome, were_rules_missing);
    }

    /// Reports the repair of changed rules, once all of them are repaired.
    pub(super) fn report_repair(&self, checks: &mut Checks) {
        if let Some(after) = checks.take_repair_time() {
            self.reporter.repaired(after);
        }
    }

    /// Returns the addresses of NodePorts in the rules in the kernel.
    fn node_ports(&self) -> Option<NodePortAddresses> {
        let written = self.syncer.written();
        written.map(|options| options.node_port_addresses.clone())
    }

    /// Requests the deletion of stale conntrack entries. After a time with missing rules, such as
    /// those for NodePorts on a new address of the node, any entry may be stale.
    fn request_sweep(&self, outcome: &Outcome, were_rules_missing: bool) {
        let (Some(sweeper), Some(options)) = (&self.sweeper, self.syncer.written()) else {
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
