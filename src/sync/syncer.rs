//! One sync of one family: decides its scope, restores, and records the result.
//!
//! The [`task`](super::task) decides when it runs; each kind of restore is in
//! [`restore`](super::restore).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::decide::{FullReason, History, Scope};
use super::edited::FixedChain;
use super::outcome::{Attempt, Failure, Outcome};
use super::pacer::End;
use super::quarantine::Quarantine;
use super::surroundings::Surroundings;
use crate::host::Iptables;
use crate::model::ServiceName;
use crate::render::{
    AppliedState, Counters, Jump, LiveChains, NodePortAddresses, Options, PartialRestore,
    PayloadStats, RerenderReason,
};
use crate::rules::Table;
use crate::tracker::{Settled, Tracker};

/// Fixed options of a syncer.
#[derive(Debug, Clone)]
pub struct SyncerOptions {
    /// Inputs of rules.
    pub surroundings: Surroundings,
    /// Shape of partial restores.
    pub shape: PartialRestore,
    /// Interval of periodic full syncs.
    pub full_every: Duration,
}

/// Clock; tests have their own.
pub type Clock = fn() -> Instant;

/// Syncer of one family.
pub struct Syncer<I> {
    /// State of the cluster.
    pub tracker: Tracker,
    pub(super) iptables: I,
    pub(super) options: SyncerOptions,
    pub(super) clock: Clock,
    /// Rules in the kernel.
    pub(super) applied: AppliedState,
    pub(super) history: History,
    /// Options of the rules in the kernel; `None` while it is not known what the kernel
    /// holds, so that the applied state means nothing.
    pub(super) written: Option<Options>,
    /// The tables that could not be read by the last full sync.
    pub(super) unread: BTreeSet<Table>,
    /// Reads of the kernel's rules in a row that got no answer.
    pub(super) unanswered: u32,
    /// State of the kernel as far as the last check of our chains has shown it, for the next full
    /// sync; `None`: that reads it.
    pub(super) live: Option<LiveChains>,
    /// Fixed chains that the next sync writes anew.
    pub(super) repairs: BTreeSet<FixedChain>,
    /// Jumps that the next sync puts back.
    pub(super) lost_jumps: Vec<&'static Jump>,
    /// Services whose rules the next sync compares with the applied state even if they have not
    /// changed.
    pub(super) drifted: BTreeSet<ServiceName>,
    /// Text that the applied state takes for written, and that is still to be written because
    /// another program held the lock. It goes in front of the next partial restore.
    pub(super) unwritten: Vec<u8>,
    /// The counters that could be made the last time.
    pub(super) counters: Option<Counters>,
    /// Services that make restores fail.
    pub(super) quarantine: Quarantine,
    /// Deadline of restores while such Services are looked for; `None`: the usual one.
    pub(super) deadline: Option<Duration>,
    /// Time that the last restore took that succeeded.
    pub(super) restore_took: Duration,
    /// No such search before this, after one that found the environment to be the cause.
    pub(super) isolate_after: Option<Instant>,
}

impl<I: Iptables> Syncer<I> {
    /// Returns a syncer for a kernel of unknown state: the first sync adopts or is full.
    pub fn new(iptables: I, tracker: Tracker, options: SyncerOptions, clock: Clock) -> Self {
        let (applied, history) = (AppliedState::default(), History::default());
        Self {
            tracker,
            iptables,
            options,
            clock,
            applied,
            history,
            written: None,
            unread: BTreeSet::new(),
            unanswered: 0,
            live: None,
            repairs: BTreeSet::new(),
            lost_jumps: Vec::new(),
            drifted: BTreeSet::new(),
            unwritten: Vec::new(),
            counters: None,
            quarantine: Quarantine::default(),
            deadline: None,
            restore_took: Duration::ZERO,
            isolate_after: None,
        }
    }

    /// Returns the iptables binaries.
    pub const fn iptables(&self) -> &I {
        &self.iptables
    }

    /// Returns the time of the next retry of a Service in quarantine, if there is one.
    pub fn next_retry(&self) -> Option<Instant> {
        self.quarantine.next_try()
    }

    /// Reports whether a part of an earlier restore waits for the lock.
    pub(super) const fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Makes the next sync full.
    pub fn force_full(&mut self, reason: FullReason) {
        self.history.force_full(reason);
    }

    /// Reports whether the last full sync, or a check since, could not read a table.
    pub(super) fn has_unreadable_tables(&self) -> bool {
        !self.unread.is_empty() || !self.applied.can_list_nat()
    }

    /// Notes that a check could not print this table.
    pub(super) fn is_unprintable(&mut self, table: Table) {
        if table == Table::Nat {
            self.applied.nat_is_unprintable();
        }
    }

    /// Returns the options of the rules in the kernel, those of the last applied sync; `None`
    /// while the state of the kernel is unknown.
    pub const fn written(&self) -> Option<&Options> {
        self.written.as_ref()
    }

    /// Reports whether [`Syncer::once`] needs the addresses of the node.
    pub fn needs_machine_addresses(&self) -> bool {
        self.options.surroundings.needs_machine_addresses()
    }

    /// Returns the addresses that NodePorts answer on since the last applied sync; `None` before
    /// that.
    pub fn node_port_addresses(&self) -> Option<&NodePortAddresses> {
        let options = self.history.options.as_ref()?;
        Some(&options.node_port_addresses)
    }

    /// Reports whether NodePorts answer on other addresses than they should on a node with these.
    pub fn has_moved(&self, machine: &[IpAddr]) -> bool {
        let (surroundings, node) = (&self.options.surroundings, self.tracker.node());
        self.node_port_addresses()
            .is_some_and(|known| *known != surroundings.options(node, machine).node_port_addresses)
    }

    /// One sync. A partial restore that is refused becomes a full one at once, and a full one that
    /// failed before anything was written becomes partial if that is enough. Only what the kernel
    /// has taken is settled, so a failed sync loses nothing.
    pub async fn once(&mut self, machine: &[IpAddr]) -> Outcome {
        let mut options = self
            .options
            .surroundings
            .options(self.tracker.node(), machine);
        options.counters = self.history.counters().unwrap_or_default();
        let dirty = self.tracker.pending();
        let first = self.attempt(self.scope(&options), &mut options).await;
        let mut attempts = vec![first];
        if let Some(scope) = self.second_scope(&attempts, &mut options) {
            attempts.push(self.attempt(scope, &mut options).await);
        }
        let is_applied = attempts
            .last()
            .is_some_and(|attempt| attempt.result.is_ok());
        let isolation = if is_applied {
            None
        } else {
            self.isolate(&attempts, &mut options).await
        };
        let settled = match &isolation {
            Some(isolation) => self.settle_resolved(isolation, &options),
            None if is_applied => self.settle(&options, &[]),
            None => Settled::default(),
        };
        let mut outcome = Outcome {
            attempts,
            isolation,
            retry: None,
            settled,
            dirty,
            rules: self.applied.rules(),
            totals: self.applied.totals(),
            quarantined: Vec::new(),
        };
        if outcome.end() == End::Applied {
            self.retry_quarantined(&mut outcome, &mut options).await;
        }
        outcome.quarantined = self.quarantine.names().cloned().collect();
        outcome
    }

    /// The kernel has all of what was rendered with these options, but not those Services, which
    /// are `unresolved`, and not those in quarantine.
    pub(super) fn settle(&mut self, options: &Options, unresolved: &[ServiceName]) -> Settled {
        self.history.options = Some(options.clone());
        self.history.zone = self.tracker.node().and_then(|node| node.zone.clone());
        let quarantine = &self.quarantine;
        self.tracker
            .settle_where(|name| !quarantine.has(name) && !unresolved.contains(name))
    }

    fn scope(&self, options: &Options) -> Scope {
        let every = self.options.full_every;
        self.history
            .scope(self.setting(options), every, (self.clock)())
    }

    /// Scope of a second attempt after a first one that failed; `None` if it would fail alike.
    fn second_scope(&self, attempts: &[Attempt], options: &mut Options) -> Option<Scope> {
        let [
            Attempt {
                scope,
                result: Err(failure),
                ..
            },
        ] = attempts
        else {
            return None;
        };
        match (scope, failure) {
            (_, Failure::Restore(error, _)) if error.committed_if_retriable().is_some() => None,
            (Scope::Partial | Scope::Adoption, Failure::Restore(..)) => {
                Some(Scope::Full(FullReason::Failed))
            }
            (Scope::Full(_), _) if self.knows_kernel() => {
                // Counters are only looked after by full syncs.
                options.counters = self.history.counters().unwrap_or_default();
                let rewrite = self.history.rewrite(self.setting(options));
                (rewrite != Some(RerenderReason::Options)).then_some(Scope::Partial)
            }
            _ => None,
        }
    }

    /// Reports whether the applied state describes the kernel: no restore has failed half-way since
    /// it was written, and no check has found rules missing.
    pub(super) const fn knows_kernel(&self) -> bool {
        self.written.is_some() && self.history.must_be_full.is_none()
    }

    async fn attempt(&mut self, scope: Scope, options: &mut Options) -> Attempt {
        let started = (self.clock)();
        let done = match scope {
            Scope::Adoption => self.adopt(options).await,
            Scope::Full(reason) => self.full(reason, options).await,
            Scope::Partial => self.partial(options).await,
        };
        let ended = (self.clock)();
        let took = ended.saturating_duration_since(started);
        if let (Scope::Full(_), Ok(_)) = (done.scope, &done.restored) {
            self.history.full_took = took;
            self.restore_took = took;
        }
        if done.restored.is_ok() {
            self.tracker.shifts_applied();
        }
        match &done.restored {
            Ok(_) if done.scope == Scope::Partial => self.note_took(done.partial.stats, took),
            Ok(_) => self.history.succeeded(ended),
            Err(failure) => self.failed(done.scope, failure, ended),
        }
        Attempt {
            scope: done.scope,
            took,
            stats: done.partial.stats,
            payload: done.partial.text,
            no_counter: done.no_counter,
            unread: done.unread,
            declined: done.declined,
            lock_wait: done
                .restored
                .as_ref()
                .map_or(Duration::ZERO, |restored| restored.lock_wait),
            result: done.restored.map(|_| ()),
        }
    }

    /// Notes how long a restore took that succeeded, if one was made.
    fn note_took(&mut self, stats: PayloadStats, took: Duration) {
        if stats.bytes > 0 {
            self.restore_took = took;
        }
    }

    /// Notes what has to be done because of an attempt that failed. One that only missed the lock
    /// is made again as it was.
    fn failed(&mut self, scope: Scope, failure: &Failure, now: Instant) {
        let is_retriable = matches!(failure, Failure::Restore(error, _)
            if error.committed_if_retriable().is_some());
        let is_refused = matches!(failure, Failure::Restore(..)) && !is_retriable;
        let was_synced = self.history.last_full.is_some();
        if self.written.is_none() && (is_refused || was_synced) {
            self.history.force_full(FullReason::Failed);
        } else if scope == Scope::Full(FullReason::Periodic) && !is_retriable {
            self.history.postpone(now);
        }
    }
}
