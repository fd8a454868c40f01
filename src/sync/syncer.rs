//! Syncs one family once: decides the scope, restores, and records the result.
//!
//! The [`task`](super::task) decides when it runs; each kind of restore is in
//! [`restore`](super::restore).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::decide::{FullReason, Scope, SyncHistory};
use super::node_environment::NodeEnvironment;
use super::outcome::{Attempt, Failure, Outcome};
use super::pacer::SyncResult;
use super::quarantine::Quarantine;
use super::repair_backoff::FixedChain;
use crate::host::Iptables;
use crate::model::{ServiceName, ServiceState, Services};
use crate::render::{
    AppliedState, Counters, Jump, LiveChains, NodePortAddresses, Options, PartialRestore,
    PayloadStats, RerenderReason,
};
use crate::rules::Table;
use crate::tracker::{AppliedChanges, Tracker};

/// Fixed options of a syncer.
#[derive(Debug, Clone)]
pub struct SyncerOptions {
    /// Inputs of rules.
    pub environment: NodeEnvironment,
    /// Shape of partial restores.
    pub shape: PartialRestore,
    /// Interval of periodic full syncs.
    pub full_sync_interval: Duration,
}

/// Source of the current time; tests replace it.
pub(crate) type Clock = fn() -> Instant;

/// Syncer of one family.
pub struct Syncer<I> {
    /// State of the cluster.
    pub tracker: Tracker,
    pub(super) iptables: I,
    pub(super) options: SyncerOptions,
    pub(super) clock: Clock,
    /// Rules in the kernel.
    pub(super) applied: AppliedState,
    pub(super) history: SyncHistory,
    /// Options of the rules in the kernel; `None` while the state of the kernel is unknown and
    /// `applied` is meaningless.
    pub(super) written: Option<Options>,
    /// Tables that the last full sync could not read.
    pub(super) unread: BTreeSet<Table>,
    /// Number of consecutive reads of the kernel without an answer.
    pub(super) unanswered: u32,
    /// State of the kernel after a flush that the last check found, for the next full sync;
    /// `None`: a full sync reads it.
    pub(super) after_flush: Option<LiveChains>,
    /// Fixed chains that the next sync rewrites.
    pub(super) repairs: BTreeSet<FixedChain>,
    /// Missing jumps that the next sync restores.
    pub(super) lost_jumps: Vec<&'static Jump>,
    /// Services that the next sync compares with the applied state although they have not changed
    /// in the cluster.
    pub(super) drifted: BTreeSet<ServiceName>,
    /// Text that the applied state counts as written, but that was not because another program
    /// held the xtables lock. The next partial restore begins with it.
    pub(super) unwritten: Vec<u8>,
    /// Counters that could be created by the last full sync.
    pub(super) counters: Option<Counters>,
    /// Quarantined Services.
    pub(super) quarantine: Quarantine,
    /// Deadline of restores during a search for failing Services; `None`: the usual one.
    pub(super) deadline: Option<Duration>,
    /// Duration of the last successful restore.
    pub(super) restore_took: Duration,
    /// Earliest time of the next search, after one that found the node at fault.
    pub(super) isolate_after: Option<Instant>,
}

impl<I: Iptables> Syncer<I> {
    /// Returns a syncer for a kernel of unknown state: the first sync adopts or is full.
    pub fn new(iptables: I, tracker: Tracker, options: SyncerOptions, clock: Clock) -> Self {
        let (applied, history) = (AppliedState::default(), SyncHistory::default());
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
            after_flush: None,
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

    /// Reports whether a part of an earlier restore is still to be written.
    pub(super) const fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Makes the next sync full.
    pub fn force_full(&mut self, reason: FullReason) {
        self.history.force_full(reason);
    }

    /// Reports whether the last full sync or a later check could not read a table.
    pub(super) fn has_unreadable_tables(&self) -> bool {
        !self.unread.is_empty() || !self.applied.can_list_nat()
    }

    /// Notes that a check could not print this table.
    pub(super) fn mark_unprintable(&mut self, table: Table) {
        if table == Table::Nat {
            self.applied.set_nat_unprintable();
        }
    }

    /// Returns the options of the last applied sync, whose rules are in the kernel; `None` while
    /// the state of the kernel is unknown.
    pub const fn written(&self) -> Option<&Options> {
        self.written.as_ref()
    }

    /// Reports whether [`Syncer::once`] needs the addresses of the node.
    pub fn needs_node_addresses(&self) -> bool {
        self.options.environment.needs_node_addresses()
    }

    /// Returns the addresses of NodePorts since the last applied sync; `None` before the first
    /// one.
    pub fn node_port_addresses(&self) -> Option<&NodePortAddresses> {
        let options = self.history.options.as_ref()?;
        Some(&options.node_port_addresses)
    }

    /// Reports whether NodePorts have other addresses than a node with these addresses requires.
    pub fn node_port_addresses_changed(&self, node_addresses: &[IpAddr]) -> bool {
        let (environment, node) = (&self.options.environment, self.tracker.node());
        self.node_port_addresses().is_some_and(|known| {
            *known
                != environment
                    .options(node, node_addresses)
                    .node_port_addresses
        })
    }

    /// Runs one sync. A failed partial restore is followed by a full one at once. A full restore
    /// that failed before it changed anything is followed by a partial one if that is enough.
    /// Changes are marked as applied only when the kernel has them, so a failed sync loses
    /// nothing.
    pub async fn once(&mut self, node_addresses: &[IpAddr]) -> Outcome {
        let mut options = self
            .options
            .environment
            .options(self.tracker.node(), node_addresses);
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
        let applied = match &isolation {
            Some(isolation) => self.mark_resolved_applied(isolation, &options),
            None if is_applied => self.mark_applied(&options, &[]),
            None => AppliedChanges::default(),
        };
        let mut outcome = Outcome {
            attempts,
            isolation,
            retry: None,
            applied,
            dirty,
            rules: self.applied.rules(),
            totals: self.applied.totals(),
            quarantined: Vec::new(),
        };
        if outcome.result() == SyncResult::Applied {
            self.retry_quarantined(&mut outcome, &mut options).await;
        }
        outcome.quarantined = self.quarantine.names().cloned().collect();
        outcome
    }

    /// Marks all changes as applied that were rendered with these options, except those of
    /// `unresolved` and quarantined Services.
    pub(super) fn mark_applied(
        &mut self,
        options: &Options,
        unresolved: &[ServiceName],
    ) -> AppliedChanges {
        self.history.options = Some(options.clone());
        self.history.zone = self.tracker.node().and_then(|node| node.zone.clone());
        let quarantine = &self.quarantine;
        self.tracker
            .mark_applied_where(|name| !quarantine.has(name) && !unresolved.contains(name))
    }

    fn scope(&self, options: &Options) -> Scope {
        let every = self.options.full_sync_interval;
        self.history
            .scope(self.setting(options), every, (self.clock)())
    }

    /// Returns the scope of a second attempt after a failed first one; `None` if it would fail in
    /// the same way.
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
                // Only full syncs create counters.
                options.counters = self.history.counters().unwrap_or_default();
                let rewrite = self.history.rerender_reason(self.setting(options));
                (rewrite != Some(RerenderReason::Options)).then_some(Scope::Partial)
            }
            _ => None,
        }
    }

    /// Reports whether the applied state describes the kernel: no restore was applied in part, and
    /// no check found all rules missing.
    pub(super) const fn knows_kernel(&self) -> bool {
        self.written.is_some() && self.history.must_be_full.is_none()
    }

    async fn attempt(&mut self, scope: Scope, options: &mut Options) -> Attempt {
        let started = (self.clock)();
        let mut attempt = match scope {
            Scope::Adoption => self.adopt(options).await,
            Scope::Full(reason) => self.full(reason, options).await,
            Scope::Partial => self.partial(options).await,
        };
        let ended = (self.clock)();
        let took = ended.saturating_duration_since(started);
        attempt.took = took;
        match &attempt.result {
            Ok(()) => {
                self.tracker.mark_shifts_applied();
                match attempt.scope {
                    Scope::Full(_) => {
                        self.history.full_took = took;
                        self.restore_took = took;
                        self.history.succeeded(ended);
                    }
                    Scope::Adoption => self.history.succeeded(ended),
                    Scope::Partial => self.note_took(attempt.stats, took),
                }
            }
            Err(failure) => self.failed(attempt.scope, failure, ended),
        }
        attempt
    }

    /// Notes the duration of a successful partial restore, if one was made.
    fn note_took(&mut self, stats: PayloadStats, took: Duration) {
        if stats.bytes > 0 {
            self.restore_took = took;
        }
    }

    /// Notes the consequences of a failed attempt. One that only missed the xtables lock is
    /// repeated unchanged.
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

/// Services as they are rendered: those of the tracker, or their overrides.
pub(super) struct RenderedServices<'a>(pub(super) &'a Tracker);

impl Services for RenderedServices<'_> {
    fn all(&self) -> Box<dyn Iterator<Item = (&ServiceName, &ServiceState)> + '_> {
        let Self(tracker) = *self;
        let overrides = tracker.overrides();
        if overrides.is_empty() {
            return tracker.all();
        }
        let known = tracker.all().map(|(name, state)| {
            let rendered = overrides.get(name).map(|one| &one.state);
            (name, rendered.unwrap_or(state))
        });
        // Overridden Services that are deleted in the cluster, but not yet in the kernel.
        let gone = overrides
            .iter()
            .filter(move |(name, _)| tracker.get(name).is_none())
            .map(|(name, one)| (name, &one.state));
        let (mut known, mut gone) = (known.peekable(), gone.peekable());
        Box::new(std::iter::from_fn(move || {
            match (known.peek(), gone.peek()) {
                (Some((known_name, _)), Some((gone_name, _))) if gone_name < known_name => {
                    gone.next()
                }
                (None, _) => gone.next(),
                (Some(_), _) => known.next(),
            }
        }))
    }

    fn get(&self, name: &ServiceName) -> Option<&ServiceState> {
        let Self(tracker) = *self;
        let rendered = tracker.overrides().get(name).map(|one| &one.state);
        rendered.or_else(|| tracker.get(name))
    }
}
