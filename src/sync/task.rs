//! The loop of one family: everything that can wake it is one `enum`.
//!
//! Apart from [`Syncer`] because this only waits and passes on; what a sync is, it does not know.

use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::budget::Ran;
use super::canary::{Canary, CheckResult};
use super::change_channel::ChangeReceiver;
use super::decide::{FullReason, Scope};
use super::flows::FlowSweeper;
use super::outcome::{Attempt, Outcome};
use super::pacer::{End, Pacer};
use super::problems::Problems;
use super::report::Reporter;
use super::syncer::Syncer;
use crate::conntrack;
use crate::host::{Iptables, RunError, local_addresses, thread_cpu};
use crate::model::Change;
use crate::render::NodePortAddresses;
use crate::tracker::Tracker;

/// How long a sync that is due waits for a check under way. Most checks end within a second, and a
/// check that gave way to each sync would never end under lasting change.
const CHECK_PATIENCE: Duration = Duration::from_secs(5);

/// Everything that can wake the task.
enum Event {
    /// The cluster changed: all changes that have not been taken yet.
    Changed(Vec<Change>),
    /// A sync is due.
    Due,
    /// It is time to check whether our chains are still there.
    Check,
    /// A Service in quarantine is to be tried again.
    Retry,
    /// The process ends, or nobody will ever send a change again.
    Shutdown,
}

/// One family's task.
pub struct Task<I> {
    /// What syncs.
    pub syncer: Syncer<I>,
    /// What says when.
    pub pacer: Pacer,
    /// What tells logs, metrics and health.
    pub reporter: Reporter,
    /// Who sweeps the flows that new rules have left behind; `None`: what the kernel holds is not
    /// ours.
    pub flows: Option<FlowSweeper>,
    /// Where changes come from.
    pub changes: ChangeReceiver,
    /// How often the kernel is looked at; `None`: what it holds is not ours.
    pub look_every: Option<Duration>,
    /// Told once, when the first sync has succeeded.
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
        let mut canary = Canary::new(self.look_every, Instant::now().into_std());
        let mut problems = Problems::default();
        loop {
            match self.next_event(&canary).await {
                Event::Changed(changes) => self.intake().take(changes),
                Event::Due => self.sync(&mut problems).await,
                Event::Check => self.check(&mut canary).await,
                Event::Retry => self.intake().request(),
                Event::Shutdown => return,
            }
        }
    }

    /// A due sync comes before further changes: however fast they arrive, they cannot put it off.
    async fn next_event(&mut self, canary: &Canary) -> Event {
        let due = self.pacer.next_due().map(Instant::from_std);
        let check = canary.next_check().map(Instant::from_std);
        // A sync tries again what is due, so that none is asked for while one is to come.
        let is_to_come = self.pacer.awaits_sync();
        let retry = self.syncer.next_retry().filter(|_| !is_to_come);
        let retry = retry.map(Instant::from_std);
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Event::Shutdown,
            () = until(due) => Event::Due,
            changes = self.changes.recv() => changes.map_or(Event::Shutdown, Event::Changed),
            () = until(check) => Event::Check,
            () = until(retry) => Event::Retry,
        }
    }

    fn intake(&mut self) -> Intake<'_> {
        Intake {
            tracker: &mut self.syncer.tracker,
            pacer: &mut self.pacer,
            reporter: &self.reporter,
        }
    }

    fn request(&mut self) {
        self.intake().request();
    }

    fn machine(&self) -> Vec<IpAddr> {
        if self.syncer.needs_machine_addresses() {
            self.reporter.addresses(local_addresses())
        } else {
            Vec::new()
        }
    }

    async fn sync(&mut self, problems: &mut Problems) {
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
        let has_moved = before.is_some() && before != self.node_ports();
        self.tell_sweeper(&outcome, has_moved);
    }

    /// Addresses that NodePorts answer on by the rules in the kernel.
    fn node_ports(&self) -> Option<NodePortAddresses> {
        let written = self.syncer.written();
        written.map(|options| options.node_port_addresses.clone())
    }

    /// Passes on which flows the new rules may send elsewhere. Where rules have been missing for a
    /// while, as those for NodePorts on an address that the node gained, any flow may be stale.
    fn tell_sweeper(&self, outcome: &Outcome, has_moved: bool) {
        let (Some(flows), Some(options)) = (&self.flows, self.syncer.written()) else {
            return;
        };
        let services = self.syncer.view();
        let were_missing = |attempt: &Attempt| {
            attempt.scope == Scope::Full(FullReason::Flushed) && attempt.result.is_ok()
        };
        let changed = &outcome.settled.before;
        let left_behind = conntrack::left_behind(changed, &services, options);
        let suspects = if has_moved || outcome.attempts.iter().any(were_missing) {
            conntrack::all(&services, options)
        } else {
            left_behind
        };
        flows.tell(self.reporter.family, suspects, &options.node_port_addresses);
    }

    /// Checks for our rules. If some are missing, everything is restored at once; a fixed chain
    /// that only gained rules is written anew. A sync is also due if NodePorts should answer on
    /// other addresses by now.
    async fn check(&mut self, canary: &mut Canary) {
        let Some(result) = self.check_result(canary).await else {
            return;
        };
        canary.schedule(&result, Instant::now().into_std());
        self.reporter.checked(&result, canary.unreadable());
        for (table, cause) in &result.newly_unreadable {
            if matches!(cause, RunError::Unprintable { .. }) {
                self.syncer.is_unprintable(*table);
            }
        }
        if result.gone.is_some() {
            self.syncer.force_full(FullReason::Flushed);
            self.request();
        } else if !result.edited.is_empty() {
            let chains = result.edited.iter().map(|edited| edited.chain);
            self.syncer.repair(chains);
            self.request();
        } else if self.syncer.has_moved(&self.machine()) {
            self.request();
        }
    }

    /// Findings of a check, with changes taken in meanwhile: the programs may hang for minutes. A
    /// check under way gives way to a sync that has been due for [`CHECK_PATIENCE`]. `None`: the
    /// process ends.
    async fn check_result(&mut self, canary: &mut Canary) -> Option<CheckResult> {
        let started = Instant::now();
        let Syncer {
            tracker,
            iptables,
            written,
            ..
        } = &mut self.syncer;
        let mut intake = Intake {
            tracker,
            pacer: &mut self.pacer,
            reporter: &self.reporter,
        };
        {
            let check = canary.check(iptables, written.as_ref(), started.into_std());
            tokio::pin!(check);
            loop {
                let due = intake.pacer.next_due().map(Instant::from_std);
                let patience = due.map(|due| due.max(started) + CHECK_PATIENCE);
                tokio::select! {
                    biased;
                    () = self.stop.cancelled() => return None,
                    result = &mut check => return Some(result),
                    () = until(patience) => break,
                    changes = self.changes.recv() => intake.take(changes?),
                }
            }
        }
        Some(canary.abandoned(started.elapsed()))
    }
}

/// The parts of a task that changes are for: changes are taken in while a check has others.
struct Intake<'a> {
    tracker: &'a mut Tracker,
    pacer: &'a mut Pacer,
    reporter: &'a Reporter,
}

impl Intake<'_> {
    /// Gives changes to the tracker, and asks for a sync if one is needed.
    fn take(&mut self, changes: Vec<Change>) {
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

/// Waits for a moment; for none, for ever. One that is past is not waited for: a timer would do so
/// until its next tick, a millisecond later.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) if moment <= Instant::now() => {}
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
