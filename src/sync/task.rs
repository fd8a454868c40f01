//! Main loop of one IP family: waits for events, runs syncs, checks and verifications, and requests
//! the syncs that repair differences.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::{SetOnce, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::answers::answer;
use super::drift_detection::{DriftDetection, check_guarded_chains};
use super::kernel::{
    Compared, ComparisonTrigger, Extent, GuardedChainFindings, KernelState, Reading, read_chains,
};
use super::outcome::{Attempt, Outcome};
use super::problems::ServiceProblems;
use super::report::Reporter;
use super::schedule::{FullReason, Pacer, RunTimes, Scope, SyncResult};
use super::syncer::Syncer;
use crate::conntrack::{self, SweepRequest};
use crate::host::{
    AddressWatch, ChangeSource, ForeignChange, Iptables, local_addresses, thread_cpu,
};
use crate::model::Change;
use crate::render::NodePortAddresses;
use crate::status::FamilyRequest;
use crate::tracker::Tracker;
use crate::watch::ChangeReceiver;

/// Maximum time for which a running comparison delays a due sync. Most end within a second. If due
/// syncs interrupted comparisons at once, none would end under continuous changes.
const COMPARISON_PATIENCE: Duration = Duration::from_secs(5);

enum TaskEvent {
    /// The cluster changed; contains all new changes.
    ClusterChanged(Vec<Change>),
    SyncDue,
    /// A periodic check of the guarded chains is due.
    CheckDue,
    /// Addresses of this node may have changed, and syncs need them.
    AddressesChanged,
    RulesChanged(ForeignChange),
    /// A verification of all rules is due.
    VerificationDue,
    /// The delayed repair of rules that another program keeps changing is due.
    RepairDue,
    /// Another read of rules that could not be read is due.
    RereadDue,
    /// The retry of a Service in quarantine is due.
    QuarantineRetryDue,
    /// A page asks for what is in memory.
    Requested(FamilyRequest),
    /// The process shuts down, or the source of changes has ended.
    Shutdown,
}

/// Task of one IP family, with all of its state.
pub(crate) struct Task<I> {
    /// Syncer, which owns the iptables binaries and the tracker.
    pub syncer: Syncer<I>,
    pub pacer: Pacer,
    /// Reporter to logs, metrics, health and Events.
    pub reporter: Reporter,
    /// Channel to the sweeper of stale conntrack entries; `None` in a dry run.
    pub sweeper: Option<Sender<SweepRequest>>,
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
    pub requests: mpsc::Receiver<FamilyRequest>,
    /// Ends the task; the rules stay.
    pub stop: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadingEnd {
    /// All was read, or could not be read.
    Complete,
    /// Another program changed rules; this change is checked first, and then the reading restarted.
    RulesChanged,
    /// A due sync was delayed for too long.
    Abandoned,
    Shutdown,
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
                    detection.repairs.due = None;
                    self.request_sync();
                }
                TaskEvent::RereadDue => self.reread(&mut detection).await,
                TaskEvent::QuarantineRetryDue => self.request_sync(),
                TaskEvent::Requested(request) => answer(request, &self.syncer, &self.reporter),
                TaskEvent::Shutdown => return,
            }
            let clock = || Instant::now().into_std();
            self.reporter.record_checkpoint(&self.syncer, clock);
        }
    }

    /// Waits for the next event. A due sync comes before further changes, so that frequent changes
    /// cannot delay it.
    async fn next_event(&mut self, detection: &DriftDetection) -> TaskEvent {
        let sync = self.pacer.next_due().map(Instant::from_std);
        let check = detection.guarded_chains.next_check().map(Instant::from_std);
        let verify = detection.verifications.next().map(Instant::from_std);
        let repair = detection.repairs.due.map(Instant::from_std);
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
            Some(request) = self.requests.recv() => TaskEvent::Requested(request),
        }
    }

    fn intake(&mut self) -> Intake<'_> {
        Intake {
            tracker: &mut self.syncer.tracker,
            pacer: &mut self.pacer,
            reporter: &self.reporter,
        }
    }

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
        let had_drift = is_applied && detection.repairs.repaired(ended);
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
        let next = self.pacer.next_due().unwrap_or(ended);
        let retry = (self.pacer.failures(), next.saturating_duration_since(ended));
        self.reporter.finished(outcome, tracker, ended, retry);
        let found = problems.update(&outcome.applied.before, tracker);
        self.reporter.problems(&found, problems);
        if let Some(options) = self.syncer.applied_options() {
            let ports = outcome.totals.undetected;
            self.reporter.undetected_pods(ports, &options.local_traffic);
        }
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
        let services = self.syncer.tracker.rendered();
        let before = &outcome.applied.before;
        let candidates = if were_rules_missing {
            conntrack::all_candidates(before, &services, options)
        } else {
            conntrack::stale_candidates(before, &services, options)
        };
        // They also have the destinations that became valid, whose entries a running sweep must
        // spare: so a request without stale ones is sent as well.
        if candidates.affects_nothing() {
            return;
        }
        // The thread ends later than the tasks, unless it panicked, which ends the process.
        let _ = sweeper.send(SweepRequest {
            family: self.reporter.family,
            candidates,
            node_port_addresses: options.node_port_addresses.clone(),
        });
    }

    /// Runs the periodic check of the guarded chains whose changes are not detected otherwise.
    /// Requests a sync if the addresses of NodePorts changed.
    pub(super) async fn check_periodically(&mut self, detection: &mut DriftDetection) {
        let extent = detection.periodic(self.syncer.iptables.change_detection());
        let findings = if extent.is_empty() {
            GuardedChainFindings::default()
        } else {
            match self
                .compare(detection, ComparisonTrigger::CheckDue, &extent, None)
                .await
            {
                Ok(findings) => findings,
                Err(_) => return,
            }
        };
        let now = Instant::now().into_std();
        detection.guarded_chains.schedule(&findings, now);
        self.check_addresses();
    }

    /// Compares the chains that another program changed. If their names are not known, compares the
    /// guarded chains and schedules a verification; after detection by sizes, compares all rules.
    pub(super) async fn rules_changed(
        &mut self,
        detection: &mut DriftDetection,
        change: &ForeignChange,
    ) {
        self.reporter.removed(&change.removals);
        let KernelState::Known(applied, options) = &self.syncer.kernel else {
            return self.syncer.forget_outlines();
        };
        let mut extent = Extent::touched(change, options, applied);
        if extent.is_empty() {
            return;
        }
        let started = Instant::now().into_std();
        let trigger = ComparisonTrigger::Change(change.source);
        // A verification of its own can be interrupted by the next change, this check cannot. With
        // detection by table sizes no change names chains, so all is compared at once.
        let is_verification_later = extent.is_whole && change.source != ChangeSource::TableSizes;
        if is_verification_later {
            extent.is_whole = false;
        }
        let checked = self
            .compare(detection, trigger, &extent, Some(change))
            .await;
        let now = Instant::now().into_std();
        detection.compared_change(started, now);
        if is_verification_later && checked.is_ok_and(|findings| findings.gone.is_none()) {
            detection.verifications.changed(change, now);
        }
    }

    /// Verifies all rules, unless the generation of the ruleset shows that none changed.
    pub(super) async fn verify(&mut self, detection: &mut DriftDetection) {
        let now = || Instant::now().into_std();
        let (started, used) = (now(), thread_cpu());
        let ran = || RunTimes {
            started,
            ended: now(),
            cpu: thread_cpu().saturating_sub(used),
        };
        let is_known = self.syncer.applied_options().is_some();
        let generation = self.syncer.iptables.generation().filter(|_| is_known);
        let by = self.syncer.iptables.change_detection();
        if !is_known || detection.verifications.can_skip(generation, by) {
            detection.verifications.skipped(&ran(), generation);
            return;
        }
        let trigger = detection.verifications.trigger();
        let compared = self
            .compare(detection, trigger, &Extent::whole(), None)
            .await;
        if compared.err() == Some(ReadingEnd::RulesChanged) {
            // The CPU time of a killed child process is not counted: elapsed time replaces it.
            let took = now().saturating_duration_since(started);
            detection.verifications.interrupted(took, now());
            return;
        }
        let generation = generation.filter(|_| detection.has_read_extent);
        detection.verifications.finished(&ran(), generation);
        self.report_repair(detection);
    }

    /// Reads and compares the rules again that could not be read; if these are all, schedules a
    /// verification, so that interruptions count.
    pub(super) async fn reread(&mut self, detection: &mut DriftDetection) {
        let extent = detection.take_to_reread();
        if extent.is_whole {
            detection.verifications.request(Instant::now().into_std());
        } else {
            let trigger = ComparisonTrigger::FollowUp;
            // Not interrupted: only a reading of all rules is.
            let _ = self.compare(detection, trigger, &extent, None).await;
        }
    }

    /// Reads the rules of an extent, compares them with the applied state, and requests a sync that
    /// repairs the difference. `change` is the change by another program that triggered this.
    /// Returns the findings about guarded chains, which the schedule of checks depends on; none if
    /// nothing was read.
    ///
    /// # Errors
    ///
    /// Another program changed rules, or the process shuts down.
    pub(super) async fn compare(
        &mut self,
        detection: &mut DriftDetection,
        trigger: ComparisonTrigger,
        extent: &Extent,
        change: Option<&ForeignChange>,
    ) -> Result<GuardedChainFindings, ReadingEnd> {
        let started = Instant::now().into_std();
        detection.has_read_extent = false;
        if self.syncer.applied_options().is_none() {
            // The state of the kernel is unknown: the next sync adopts or restores all rules.
            return Ok(GuardedChainFindings::default());
        }
        let may_be_interrupted = detection.verifications.may_be_interrupted();
        // The check that follows a change is not interrupted by the next change.
        let is_interruptible = change.is_none() && extent.is_whole && may_be_interrupted;
        let (mut reading, end) = self.read(detection, extent, is_interruptible).await;
        if end == ReadingEnd::Shutdown {
            return Err(end);
        }
        let (guarded, unreadable) = (&reading.guarded, detection.guarded_chains.unreadable());
        self.reporter.guarded_chains_checked(guarded, unreadable);
        let is_verified = reading.is_verification(extent);
        let contested = detection.repairs.contested(started);
        let Syncer {
            kernel,
            tracker,
            unreadable_tables,
            ..
        } = &mut self.syncer;
        let mut drift = kernel.note_drift(&mut reading, &contested, unreadable_tables, tracker);
        drift.programs = match change {
            Some(change) => change.programs.clone(),
            None if extent.is_whole => detection.verifications.programs(),
            None => BTreeSet::new(),
        };
        let failure = reading.failure.as_ref();
        let now = Instant::now().into_std();
        let repair_delay = if drift.is_empty() {
            Duration::ZERO
        } else {
            detection.repairs.plan(&drift.repair_keys, started, now)
        };
        let compared = Compared {
            trigger,
            is_verification: is_verified,
            drift: &drift,
            failure,
            failed_readings: detection.count_failed_readings(is_verified, failure),
            repair_delay,
            delayed_chains: detection.repairs.delayed(now),
        };
        self.handle_result(detection, &compared, &reading.guarded, now);
        detection.has_read_extent =
            failure.is_none() && is_verified == extent.is_whole && reading.to_reread.is_empty();
        detection.postpone(&reading.to_reread, now);
        if end == ReadingEnd::RulesChanged {
            return Err(end);
        }
        Ok(reading.guarded)
    }

    /// Reports the result of a comparison, and requests the verification or the sync that follows
    /// from it.
    fn handle_result(
        &mut self,
        detection: &mut DriftDetection,
        compared: &Compared<'_>,
        guarded: &GuardedChainFindings,
        now: std::time::Instant,
    ) {
        self.reporter.compared(compared);
        // If single guarded rules are missing, rules of Services may be missing as well. Events
        // name all changed chains, and lost events are followed by a verification anyway.
        let may_miss_rules = !matches!(
            compared.trigger,
            ComparisonTrigger::Change(ChangeSource::Events | ChangeSource::LostEvents)
        );
        if guarded.is_incomplete() && may_miss_rules && !compared.is_verification {
            detection.verifications.request(now);
        }
        if !compared.drift.is_empty() && compared.repair_delay.is_zero() {
            self.request_sync();
        }
    }

    /// Reads rules, as far as the reading gets, and receives changes of the cluster meanwhile: the
    /// iptables binaries may hang for minutes. The reading is abandoned for a sync that has been
    /// due for [`COMPARISON_PATIENCE`].
    async fn read(
        &mut self,
        detection: &mut DriftDetection,
        extent: &Extent,
        is_interruptible: bool,
    ) -> (Reading, ReadingEnd) {
        let started = Instant::now();
        let Syncer {
            tracker,
            iptables,
            kernel,
            ..
        } = &mut self.syncer;
        let KernelState::Known(applied, options) = kernel else {
            return (Reading::default(), ReadingEnd::Complete);
        };
        let not_before = detection.change_check_not_before.map(Instant::from_std);
        let (mut reading, checked) = (Reading::default(), SetOnce::new());
        let work = async {
            let guarded_chains = &mut detection.guarded_chains;
            let now = started.into_std();
            reading = check_guarded_chains(guarded_chains, iptables, options, extent, now).await;
            // Cannot fail: it is set only here.
            let _ = checked.set(());
            read_chains(&mut reading, iptables, extent, applied).await;
        };
        let intake = Intake {
            tracker,
            pacer: &mut self.pacer,
            reporter: &self.reporter,
        };
        let mut interruptions = Interruptions {
            intake,
            changes: &mut self.changes,
            stop: &self.stop,
            pending_change: &mut detection.pending_change,
            is_interruptible,
        };
        let touches_rules =
            |change: &ForeignChange| !Extent::touched(change, options, applied).is_empty();
        let next_change = || changed_after(&checked, iptables, not_before);
        let end = interruptions
            .watch(work, started, next_change, touches_rules)
            .await;
        let reading = match end {
            ReadingEnd::Complete | ReadingEnd::Shutdown => reading,
            ReadingEnd::RulesChanged => reading.interrupted(),
            ReadingEnd::Abandoned => {
                let after = started.elapsed();
                let guarded = detection.guarded_chains.abandoned(after);
                reading.abandoned(extent, guarded, after)
            }
        };
        (reading, end)
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

/// Sources of events that may end a reading early.
struct Interruptions<'a> {
    intake: Intake<'a>,
    changes: &'a mut ChangeReceiver,
    stop: &'a CancellationToken,
    pending_change: &'a mut Option<ForeignChange>,
    /// A change by another program ends the reading, if the names of the changed chains are known;
    /// otherwise they are checked after it.
    is_interruptible: bool,
}

impl Interruptions<'_> {
    /// Waits for the end of `work`, a reading, and handles events meanwhile. `next_change` waits
    /// for a change by another program; `touches_rules` reports whether it is one of kube-proxy
    /// rules: on some nodes others are frequent.
    async fn watch<C: Future<Output = ForeignChange>>(
        &mut self,
        work: impl Future<Output = ()>,
        started: Instant,
        next_change: impl Fn() -> C,
        touches_rules: impl Fn(&ForeignChange) -> bool,
    ) -> ReadingEnd {
        tokio::pin!(work);
        loop {
            let due = self.intake.pacer.next_due().map(Instant::from_std);
            let patience = due.map(|due| due.max(started) + COMPARISON_PATIENCE);
            let takes_changes = self.is_interruptible && self.pending_change.is_none();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return ReadingEnd::Shutdown,
                () = &mut work => return ReadingEnd::Complete,
                () = until(patience) => return ReadingEnd::Abandoned,
                changes = self.changes.recv() => match changes {
                    Some(changes) => self.intake.take(changes),
                    None => return ReadingEnd::Shutdown,
                },
                change = next_change(), if takes_changes => if touches_rules(&change) {
                    // Only to check chains that are known by name takes little time.
                    let ends_reading = change.is_exact();
                    *self.pending_change = Some(change);
                    if ends_reading {
                        return ReadingEnd::RulesChanged;
                    }
                }
            }
        }
    }
}

/// Waits for a change by another program, after the check of guarded chains is complete.
async fn changed_after(
    checked: &SetOnce<()>,
    iptables: &impl Iptables,
    not_before: Option<Instant>,
) -> ForeignChange {
    checked.wait().await;
    changed(iptables, not_before).await
}
