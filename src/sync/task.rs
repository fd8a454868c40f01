//! The loop of one family: waits for events, and runs syncs and checks.

use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::budget::Ran;
use super::change_channel::ChangeReceiver;
use super::checks::Checks;
use super::decide::{FullReason, Scope};
use super::flows::FlowSweeper;
use super::outcome::{Attempt, Outcome};
use super::pacer::{End, Pacer};
use super::problems::Problems;
use super::report::Reporter;
use super::syncer::Syncer;
use crate::conntrack;
use crate::host::{ForeignChange, Iptables, local_addresses, thread_cpu};
use crate::model::Change;
use crate::render::NodePortAddresses;
use crate::tracker::Tracker;

/// Everything that can wake the task.
enum Event {
    /// The cluster changed: all changes that have not been taken yet.
    Changed(Vec<Change>),
    /// A sync is due.
    Due,
    /// A periodic check of our chains is due.
    Check,
    /// Another program changed rules.
    RulesChanged(ForeignChange),
    /// A verification of all rules is due.
    Verify,
    /// Rules that another program keeps changing are to be repaired.
    Repair,
    /// Rules that could not be read are to be read again.
    Reread,
    /// A Service in quarantine is to be tried again.
    Retry,
    /// The process ends, or the source of changes has ended.
    Shutdown,
}

/// One family's task.
pub struct Task<I> {
    /// Syncer.
    pub syncer: Syncer<I>,
    /// Decides when to sync.
    pub pacer: Pacer,
    /// Reports to logs, metrics and health.
    pub reporter: Reporter,
    /// Deletes stale conntrack entries; `None` in a dry run.
    pub flows: Option<FlowSweeper>,
    /// Source of changes.
    pub changes: ChangeReceiver,
    /// Interval of checks of our chains; `None` in a dry run.
    pub look_every: Option<Duration>,
    /// Interval of verifications of all rules; `None`: never.
    pub verify_every: Option<Duration>,
    /// Sent once, after the first applied sync.
    pub first_applied: Option<oneshot::Sender<()>>,
    /// Ends the task; the rules stay.
    pub stop: CancellationToken,
}

impl<I: Iptables> Task<I> {
    /// Keeps the kernel up to date until stopped. A restore under way is finished first.
    pub async fn run(mut self) {
        self.reporter.serving();
        if self.syncer.tracker.is_synced() {
            // Everything was listed before there was anything to sync with.
            self.request();
        }
        let now = Instant::now().into_std();
        let mut checks = Checks::new(self.look_every, self.verify_every, now);
        let mut problems = Problems::default();
        loop {
            let event = match checks.pending_change.take() {
                Some(change) => Event::RulesChanged(change),
                None => self.next_event(&checks).await,
            };
            match event {
                Event::Changed(changes) => self.intake().take(changes),
                Event::Due => self.sync(&mut problems, &mut checks).await,
                Event::Check => self.check(&mut checks).await,
                Event::RulesChanged(change) => self.rules_changed(&mut checks, &change).await,
                Event::Verify => self.verify(&mut checks).await,
                Event::Repair => {
                    checks.repair_at = None;
                    self.request();
                }
                Event::Reread => self.reread(&mut checks).await,
                Event::Retry => self.intake().request(),
                Event::Shutdown => return,
            }
        }
    }

    /// A due sync comes before further changes: however fast they arrive, they cannot put it off.
    async fn next_event(&mut self, checks: &Checks) -> Event {
        let due = self.pacer.next_due().map(Instant::from_std);
        let check = checks.canary.next_check().map(Instant::from_std);
        let verify = checks.schedule.next().map(Instant::from_std);
        let repair = checks.repair_at.map(Instant::from_std);
        let reread = checks.reread_at.map(Instant::from_std);
        let next_change = checks.next_change.map(Instant::from_std);
        // A sync tries again what is due, so that none is asked for while one is to come.
        let is_to_come = self.pacer.awaits_sync();
        let retry = self.syncer.next_retry().filter(|_| !is_to_come);
        let retry = retry.map(Instant::from_std);
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Event::Shutdown,
            () = until(due) => Event::Due,
            changes = self.changes.recv() => changes.map_or(Event::Shutdown, Event::Changed),
            // Each of these comes again only after a while, unlike changes by other programs.
            () = until(repair) => Event::Repair,
            () = until(check) => Event::Check,
            () = until(verify) => Event::Verify,
            () = until(reread) => Event::Reread,
            () = until(retry) => Event::Retry,
            change = changed(&self.syncer.iptables, next_change) => Event::RulesChanged(change),
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

    pub(super) fn machine(&self) -> Vec<IpAddr> {
        if self.syncer.needs_machine_addresses() {
            self.reporter.addresses(local_addresses())
        } else {
            Vec::new()
        }
    }

    async fn sync(&mut self, problems: &mut Problems, checks: &mut Checks) {
        let machine = self.machine();
        let before = self.node_ports();
        self.reporter.began();
        let (started, used) = (Instant::now().into_std(), thread_cpu());
        let outcome = self.syncer.once(&machine).await;
        let ended = Instant::now().into_std();
        let ran = Ran {
            started,
            ended,
            cpu: thread_cpu().saturating_sub(used),
        };
        self.pacer.finished(&ran, outcome.end());
        if !outcome.attempts.is_empty() {
            checks.canary.restored();
        }
        let tracker = &self.syncer.tracker;
        self.reporter.finished(&outcome, tracker, ended);
        let settled = &outcome.settled.before;
        let found = problems.update(settled, tracker);
        self.reporter.problems(&found, problems);
        if let Some(addresses) = self.syncer.node_port_addresses() {
            self.reporter.checks(&outcome, tracker, addresses);
        }
        if outcome.end() == End::Applied
            && let Some(first) = self.first_applied.take()
        {
            // Without a receiver nothing depends on it.
            let _ = first.send(());
        }
        let repaired = match outcome.end() {
            End::Applied => checks.repaired(),
            End::Failed => None,
        };
        if outcome.end() == End::Applied {
            if let Some(drifted_at) = repaired {
                self.reporter
                    .repaired(ended.saturating_duration_since(drifted_at));
            }
            if outcome
                .attempts
                .iter()
                .any(|attempt| attempt.result.is_err())
            {
                checks.schedule.soon(ended);
            }
        }
        let has_moved = before.is_some() && before != self.node_ports();
        // Without a jump or a chain, packets have passed by the rules for a while.
        let were_rules_missing = has_moved || repaired.is_some();
        self.tell_sweeper(&outcome, were_rules_missing);
    }

    /// Addresses that NodePorts answer on by the rules in the kernel.
    fn node_ports(&self) -> Option<NodePortAddresses> {
        let written = self.syncer.written();
        written.map(|options| options.node_port_addresses.clone())
    }

    /// Sends the candidates for deletion to the sweeper. After a time in which rules were missing,
    /// as those for NodePorts on an address that the node gained, any entry may be stale.
    fn tell_sweeper(&self, outcome: &Outcome, were_rules_missing: bool) {
        let (Some(flows), Some(options)) = (&self.flows, self.syncer.written()) else {
            return;
        };
        let services = self.syncer.view();
        let were_missing = |attempt: &Attempt| {
            attempt.scope == Scope::Full(FullReason::Flushed) && attempt.result.is_ok()
        };
        let changed = &outcome.settled.before;
        let candidates = if were_rules_missing || outcome.attempts.iter().any(were_missing) {
            conntrack::all_candidates(&services, options)
        } else {
            conntrack::stale_candidates(changed, &services, options)
        };
        flows.tell(
            self.reporter.family,
            candidates,
            &options.node_port_addresses,
        );
    }
}

/// The parts of a task that changes are for: changes are taken in while a check has others.
pub(super) struct Intake<'a> {
    pub(super) tracker: &'a mut Tracker,
    pub(super) pacer: &'a mut Pacer,
    pub(super) reporter: &'a Reporter,
}

impl Intake<'_> {
    /// Gives changes to the tracker, and asks for a sync if one is needed.
    pub(super) fn take(&mut self, changes: Vec<Change>) {
        let was_synced = self.tracker.is_synced();
        let node = self.tracker.node().cloned();
        for change in changes {
            self.reporter.change(&change);
            self.tracker.apply(change);
        }
        self.reporter.pending(self.tracker);
        // A sync finds out itself whether any rule depends on what is new about the Node.
        let is_node_new = self.tracker.node() != node.as_ref();
        if self.tracker.is_synced() && (self.tracker.has_pending() || is_node_new || !was_synced) {
            self.request();
        }
    }

    fn request(&mut self) {
        let now = Instant::now().into_std();
        self.pacer.request(now);
        self.reporter.queued(now);
    }
}

/// Waits for a change by another program, and at least until that moment.
pub(super) async fn changed(
    iptables: &impl Iptables,
    not_before: Option<Instant>,
) -> ForeignChange {
    if let Some(moment) = not_before {
        sleep_until(moment).await;
    }
    iptables.changed().await
}

/// Waits for a moment; for none, for ever. One that is past is not waited for: a timer would do so
/// until its next tick, a millisecond later.
pub(super) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) if moment <= Instant::now() => {}
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
