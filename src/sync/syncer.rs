//! Syncs one IP family once: decides the scope, adopts the rules in the kernel, writes all rules or
//! the changed ones, and records the result.
//!
//! The [`task`](super::task) decides when it runs.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::kernel::{KernelRules, KernelState, OnTransientFailure, read_rules};
use super::outcome::{
    Attempt, Failure, Notices, Outcome, QuarantineRetry, SearchResult, TrialFailure,
};
use super::quarantine::Quarantine;
use super::schedule::{FullReason, Scope, SyncHistory, SyncResult};
use crate::host::{Iptables, ListedChains, Restored, RunError};
use crate::model::{ServiceName, Services};
use crate::render::{
    self, AppliedState, Counter, FullPayload, LiveChains, LiveRules, NodePortAddresses, Options,
    PartialPayload, PartialRestore, RenderSettings, RuleCounts, ServiceTotals, guarded_chains,
    has_desired_rules,
};
use crate::rules::{Table, Text};
use crate::tracker::{AppliedChanges, Tracker};

/// Configuration of a syncer, fixed for the life of the process.
#[derive(Debug, Clone)]
pub struct SyncerOptions {
    pub render_settings: RenderSettings,
    /// Amount of rules that a partial restore writes.
    pub partial_restore: PartialRestore,
    pub full_sync_interval: Duration,
}

/// Source of the current time; tests replace it.
pub(crate) type Clock = fn() -> Instant;

pub struct Syncer<I> {
    pub tracker: Tracker,
    pub(super) iptables: I,
    pub(super) config: SyncerOptions,
    pub(super) clock: Clock,
    pub(super) kernel: KernelState,
    pub(super) history: SyncHistory,
    /// Tables that could not be read for the last full sync or adoption.
    pub(super) unreadable_tables: BTreeSet<Table>,
    /// Problems that the current sync found so far.
    pub(super) notices: Notices,
    /// Number of reads of the kernel in a row that failed. It stays while a table counts as
    /// unreadable because of a transient failure.
    pub(super) failed_reads: u32,
    /// nfacct counters that the last full sync or adoption could create; `None` before the first
    /// one.
    pub(super) counters: Option<BTreeSet<Counter>>,
    pub(super) quarantine: Quarantine,
    /// Duration of the last successful attempt, with its reading and rendering, or of the last
    /// successful trial.
    pub(super) restore_took: Duration,
    /// Until then a search has to prove first that the node can restore rules, because the last one
    /// found a fault of the node.
    pub(super) node_suspected_until: Option<Instant>,
}

impl<I: Iptables> Syncer<I> {
    /// Returns a syncer for a kernel of unknown state: the first sync adopts or is full.
    pub fn new(iptables: I, tracker: Tracker, config: SyncerOptions, clock: Clock) -> Self {
        Self {
            tracker,
            iptables,
            config,
            clock,
            kernel: KernelState::unknown(FullReason::First),
            history: SyncHistory::default(),
            unreadable_tables: BTreeSet::new(),
            notices: Notices::default(),
            failed_reads: 0,
            counters: None,
            quarantine: Quarantine::default(),
            restore_took: Duration::ZERO,
            node_suspected_until: None,
        }
    }

    pub const fn iptables(&self) -> &I {
        &self.iptables
    }

    /// Returns the time of the next retry of a Service in quarantine, or of the next part of a
    /// search, if there is one.
    pub fn next_retry(&self) -> Option<Instant> {
        self.quarantine.next_retry()
    }

    pub fn force_full(&mut self, reason: FullReason) {
        self.kernel = KernelState::unknown(reason);
    }

    /// Makes the next full sync read the chains and jumps in the kernel, because another program
    /// has changed rules since their outlines were noted.
    pub(super) fn forget_outlines(&mut self) {
        if let KernelState::Unknown { outlines, .. } = &mut self.kernel {
            *outlines = None;
        }
    }

    /// Returns the render options of the rules in the kernel; `None` while the state of the kernel
    /// is unknown.
    pub const fn applied_options(&self) -> Option<&Options> {
        self.kernel.options()
    }

    /// Reports whether [`Syncer::once`] needs the addresses of the node.
    pub fn needs_node_addresses(&self) -> bool {
        self.config.render_settings.needs_node_addresses()
    }

    /// Returns the addresses of NodePorts at the last sync that succeeded, if only for some
    /// Services, even while the state of the kernel is unknown; `None` before the first one.
    pub fn last_node_port_addresses(&self) -> Option<&NodePortAddresses> {
        let options = self.history.last_options.as_ref()?;
        Some(&options.node_port_addresses)
    }

    /// Returns the addresses of the node that [`Self::last_node_port_addresses`] has; none if these
    /// are all.
    pub(super) fn addresses_of_last_sync(&self) -> Vec<IpAddr> {
        match self.last_node_port_addresses() {
            Some(NodePortAddresses::Only(addresses)) => addresses.clone(),
            Some(NodePortAddresses::All) | None => Vec::new(),
        }
    }

    /// Reports whether a node with these addresses would have other addresses of NodePorts than
    /// [`Self::last_node_port_addresses`].
    pub fn node_port_addresses_changed(&self, node_addresses: &[IpAddr]) -> bool {
        let (render_settings, node) = (&self.config.render_settings, self.tracker.node());
        self.last_node_port_addresses().is_some_and(|known| {
            *known
                != render_settings
                    .options(node, node_addresses)
                    .node_port_addresses
        })
    }

    /// Runs one sync: an attempt, and a second one with another scope if that failed; then a search
    /// if both failed, or else a part of an earlier search or the retry of a Service in quarantine,
    /// if due. A failed partial restore is followed by a full one at once, unless another program
    /// held the xtables lock, for example: then the next sync tries it again. A full restore that
    /// failed while the kernel was known is followed by a partial one. The tracker marks a Service
    /// as applied only when the kernel has its rules, so a failed sync loses no change.
    pub async fn once(&mut self, node_addresses: &[IpAddr]) -> Outcome {
        let mut options = self
            .config
            .render_settings
            .options(self.tracker.node(), node_addresses);
        options.counters = self.history.counters();
        let dirty = self.tracker.pending();
        let first = self.attempt(self.scope(&options), &mut options).await;
        let mut attempts = vec![first];
        if let Some(scope) = self.second_scope(&attempts, &mut options) {
            attempts.push(self.attempt(scope, &mut options).await);
        }
        let is_applied = attempts
            .last()
            .is_some_and(|attempt| attempt.result.is_ok());
        let search = if is_applied {
            None
        } else {
            self.search(&attempts, &options).await
        };
        let applied = match &search {
            Some(search) => self.mark_resolved_applied(search, &options),
            None if is_applied => self.mark_applied(&options),
            None => AppliedChanges::default(),
        };
        let mut outcome = Outcome {
            attempts,
            notices: Notices::default(),
            search,
            quarantine_retry: None,
            applied,
            dirty,
            rules: RuleCounts::default(),
            tree_chains: 0,
            totals: ServiceTotals::default(),
            overridden: Vec::new(),
        };
        if outcome.result() == SyncResult::Applied {
            self.continue_trials(&mut outcome, &options).await;
        }
        self.note_entries(outcome.result());
        if let Some(applied) = self.kernel.record() {
            outcome.rules = applied.rule_counts();
            outcome.tree_chains = applied.tree_chain_count();
            outcome.totals = applied.totals();
        }
        outcome.overridden = self.tracker.overrides().keys().cloned().collect();
        outcome.notices = std::mem::take(&mut self.notices);
        outcome
    }

    /// Passes on how many entries the rules of the proxy have after a sync, so that a change by
    /// another program right after a restore is seen. After a failed sync they are not known.
    fn note_entries(&self, result: SyncResult) {
        match self.kernel.record() {
            Some(applied) if result == SyncResult::Applied => {
                let RuleCounts { filter, nat } = applied.entry_counts();
                self.iptables
                    .synced(&[(Table::Filter, filter), (Table::Nat, nat)]);
            }
            _ => self.iptables.synced(&[]),
        }
    }

    /// Continues a search after a sync that was applied, or retries a Service in quarantine.
    async fn continue_trials(&mut self, outcome: &mut Outcome, options: &Options) {
        if outcome.search.is_some() {
            return;
        }
        outcome.search = self.continue_search(options).await;
        match &outcome.search {
            Some(search) => outcome
                .applied
                .append(self.mark_resolved_applied(search, options)),
            None => self.retry_quarantined(outcome, options).await,
        }
    }

    /// Retries one Service in quarantine that is due, with a restore of its own. Each sync retries
    /// at most one, so that other changes are applied between two retries that hang.
    async fn retry_quarantined(&mut self, outcome: &mut Outcome, options: &Options) {
        if self.quarantine.next_retry().is_none() {
            return;
        }
        let tracker = &self.tracker;
        self.quarantine.note_changes(|name| tracker.get(name));
        let started = (self.clock)();
        let Some(name) = self.quarantine.due(started) else {
            return;
        };
        let retried = self.tracker.get(&name).cloned().unwrap_or_default();
        // Only counts restores: a retry puts no Service into quarantine.
        let mut counted = SearchResult::default();
        let names = [name.clone()];
        let trial = self.try_changes(&names, options, &mut counted).await;
        // Writes what is due: a failed retry may have been applied in part.
        let repaired = self.try_as_rendered(&[], options, &mut counted).await;
        // What is left is due in the record, so the next sync writes it.
        let left_damaged = repaired.err().map(TrialFailure::into_node_fault);
        let now = (self.clock)();
        let result = trial.map(|()| self.release(&name, outcome, now));
        let took = now.saturating_duration_since(started);
        match result {
            Ok(_) => {}
            Err(TrialFailure::Rules { .. }) => self.quarantine.failed(&name, retried, took, now),
            Err(TrialFailure::Node(_)) => self.quarantine.postpone(&name, took, now),
        }
        outcome.quarantine_retry = Some(QuarantineRetry {
            name,
            restores: counted.restores,
            failed: counted.failed,
            result,
            left_damaged,
        });
    }

    /// Releases a Service from quarantine after its rules were applied; returns the time that it
    /// spent there.
    fn release(&mut self, name: &ServiceName, outcome: &mut Outcome, now: Instant) -> Duration {
        let spent = self.quarantine.remove(name, now);
        // Also marks Services that lost a frontend to it, or gained one.
        self.tracker.mark_lost_frontends_applied();
        outcome.applied.append(self.tracker.mark_rendered_applied());
        spent
    }

    /// Marks all dirty Services as applied with these options, except those in quarantine and
    /// suspects.
    pub(super) fn mark_applied(&mut self, options: &Options) -> AppliedChanges {
        self.history.last_options = Some(options.clone());
        self.tracker.mark_rendered_applied()
    }

    fn scope(&self, options: &Options) -> Scope {
        let every = self.config.full_sync_interval;
        match self.kernel {
            KernelState::Unknown { reason, .. } if reason != FullReason::First => {
                Scope::Full(reason)
            }
            KernelState::Known(..) if self.history.has_applied() => {
                self.history.scope(options, every, (self.clock)())
            }
            KernelState::Unknown { .. } | KernelState::Known(..) => Scope::Adoption,
        }
    }

    /// Returns the scope of a second attempt after a failed first one; `None` if that succeeded, or
    /// if a second one would fail for the same reason. A full one whose reading or restore failed
    /// is followed by a partial one, if the kernel is known; for that it resets the counters in
    /// `options` to those in the kernel.
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
            // The xtables lock was held for too long, or `iptables-restore` did not start.
            (_, Failure::Restore { error, .. }) if error.is_independent_of_payload() => None,
            (Scope::Partial | Scope::Adoption, Failure::Restore { .. }) => {
                Some(Scope::Full(FullReason::Failed))
            }
            (Scope::Full(_), _) if self.kernel.record().is_some() => {
                // The rules in the kernel name the counters of the last sync that succeeded. All
                // other options that fixed chains depend on stay as they are until a restart.
                options.counters = self.history.counters();
                Some(Scope::Partial)
            }
            _ => None,
        }
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
                // Each restore also wrote the rules of Services that lost a frontend or won one.
                self.tracker.mark_lost_frontends_applied();
                if let Scope::Full(_) = attempt.scope {
                    self.history.full_took = took;
                }
                let is_partial = attempt.scope == Scope::Partial;
                if !is_partial {
                    self.history.succeeded(ended);
                }
                // A partial one without changes made no restore.
                if !is_partial || attempt.stats.bytes > 0 {
                    self.restore_took = took;
                }
            }
            Err(failure) => self.note_failure(attempt.scope, failure, ended),
        }
        attempt
    }

    /// Notes a failed attempt: after a periodic full sync that left the kernel known, the next one
    /// is postponed. Before a restore or an adoption has succeeded, a full sync follows a restore
    /// that failed, except if it can be tried again.
    fn note_failure(&mut self, scope: Scope, failure: &Failure, now: Instant) {
        let is_independent_of_payload =
            matches!(failure, Failure::Restore { error, .. } if error.is_independent_of_payload());
        let is_restore_failure =
            matches!(failure, Failure::Restore { .. }) && !is_independent_of_payload;
        if is_restore_failure && !self.history.has_applied() {
            self.force_full(FullReason::Failed);
        }
        let is_known = self.kernel.record().is_some();
        if scope == Scope::Full(FullReason::Periodic) && is_known && !is_independent_of_payload {
            self.history.postpone(now);
        }
    }

    /// Reads all kube-proxy rules and writes those that differ, or all rules if those in the kernel
    /// cannot be adopted.
    pub(super) async fn adopt(&mut self, options: &mut Options) -> Attempt {
        self.make_counters(options).await;
        let failed_reads = self.failed_reads;
        let read = self.read_rules(Some(LiveRules::of_tables())).await;
        let adopted = match read {
            Ok(rules) => {
                let adopted = self.try_adopt(&rules, failed_reads, options).await;
                adopted.map(|adopted| (rules.live, adopted))
            }
            Err(error) => Err(error),
        };
        let (scope, declined, written) = match adopted {
            Err(error) => (Scope::Adoption, None, failed_read(error)),
            Ok((_, Ok(applied))) => {
                self.kernel = KernelState::Known(applied.into(), options.clone());
                // `Kep3453` would also rewrite chains that do not differ.
                let partial_restore = PartialRestore::ChangedChains;
                let written = self.write_changes(&[], partial_restore, options).await;
                (Scope::Adoption, None, written)
            }
            Ok((live, Err(reason))) => {
                let written = self.write_all(&live, options).await;
                (Scope::Full(FullReason::First), Some(reason), written)
            }
        };
        Attempt {
            declined,
            ..Attempt::new(scope, written)
        }
    }

    /// Reads chains and jumps in the kernel, and writes all rules.
    pub(super) async fn full(&mut self, reason: FullReason, options: &mut Options) -> Attempt {
        self.make_counters(options).await;
        let known = match &mut self.kernel {
            KernelState::Unknown { outlines, .. } => outlines.take(),
            KernelState::Known(..) => None,
        };
        let read = if let Some(live) = known {
            Ok(live)
        } else {
            let read = self.read_rules(None).await;
            read.map(|rules| rules.live)
        };
        let written = match read {
            Err(error) => failed_read(error),
            Ok(live) => self.write_all(&live, options).await,
        };
        Attempt::new(Scope::Full(reason), written)
    }

    /// Writes the differences from the applied state: for dirty Services, and for all Services if a
    /// render option changed on which the rules of all depend. That is so only after a full attempt
    /// that failed. The payload has all that is damaged or due as well.
    pub(super) async fn partial(&mut self, options: &Options) -> Attempt {
        let dirty = self.tracker.dirty_without_override();
        let mut names: BTreeSet<ServiceName> = dirty.cloned().collect();
        if self.history.rerender_reason(options).is_some() {
            names.extend(self.tracker.all().map(|(name, _)| name.clone()));
        }
        // Includes Services in quarantine: a frontend that another Service takes must not keep the
        // rules of both.
        names.extend(self.tracker.with_changed_losses().cloned());
        let names: Vec<_> = names.into_iter().collect();
        let written = self
            .write_changes(&names, self.config.partial_restore, options)
            .await;
        Attempt::new(Scope::Partial, written)
    }

    /// Creates the nfacct counters, and notes in the render options which exist: a rule that names
    /// a missing one makes a restore fail. Repeated before each full restore, because other
    /// programs may delete unused counters. If the existing counters are not those of the last
    /// call, the first failure becomes a notice.
    ///
    /// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "ensure the nfacct counters"
    /// (v1.37)
    async fn make_counters(&mut self, options: &mut Options) {
        let (mut counters, mut first_failure) = (BTreeSet::new(), None);
        for counter in Counter::ALL {
            match self.iptables.make_counter(counter.name()).await {
                Ok(()) => drop(counters.insert(counter)),
                Err(cause) => drop(first_failure.get_or_insert(cause)),
            }
        }
        if self.counters.as_ref() != Some(&counters) {
            self.notices.no_counter = first_failure;
        }
        self.counters = Some(counters.clone());
        options.counters = counters;
    }

    /// Reads chains and jumps in the kernel, and the rules into `found`, if requested. Newly
    /// unreadable tables become notices. The applied state stays valid if this fails.
    pub(super) async fn read_rules(
        &mut self,
        found: Option<LiveRules>,
    ) -> Result<KernelRules, RunError> {
        let on_transient = OnTransientFailure::after(self.failed_reads);
        let read = read_rules(&self.iptables, found, on_transient).await;
        let mut rules = read.inspect_err(|_| self.failed_reads += 1)?;
        if !rules
            .unreadable
            .iter()
            .any(|(_, error)| error.is_transient())
        {
            self.failed_reads = 0;
        }
        let unreadable_now = rules.unreadable.iter().map(|(table, _)| *table).collect();
        let before = std::mem::replace(&mut self.unreadable_tables, unreadable_now);
        // Each table is reported once, until it was readable again.
        let unreadable = rules.unreadable.drain(..);
        let new = unreadable.filter(|(table, _)| !before.contains(table));
        let noticed = &mut self.notices.newly_unreadable;
        noticed.retain(|(table, _)| self.unreadable_tables.contains(table));
        noticed.extend(new);
        Ok(rules)
    }

    /// Makes a record of the rules in the kernel, and compares them with the rendered ones. Returns
    /// the reason for which all rules have to be written, if there is one. The reads before this
    /// one failed `failed_reads` times in a row.
    async fn try_adopt(
        &mut self,
        rules: &KernelRules,
        failed_reads: u32,
        options: &Options,
    ) -> Result<Result<AppliedState, &'static str>, RunError> {
        let Some(found) = &rules.found else {
            return Ok(Err("a table cannot be read"));
        };
        // A full restore creates KUBE-FIREWALL, as kubelet does: without it there is nothing to
        // adopt, so no process is started to list mangle.
        if !rules.live.has_kube_firewall {
            return Ok(Err(render::INCOMPLETE_SHARED_CHAINS));
        }
        let guarded = guarded_chains(Table::Mangle, options);
        match self.iptables.list(Table::Mangle, &guarded).await {
            Ok(ListedChains::Whole(listing))
                if has_desired_rules(Table::Mangle, &listing, options) => {}
            Err(error)
                if error.is_transient()
                    && OnTransientFailure::after(failed_reads) == OnTransientFailure::Fail =>
            {
                self.failed_reads = failed_reads + 1;
                return Err(error);
            }
            Ok(_) | Err(_) => return Ok(Err(render::INCOMPLETE_SHARED_CHAINS)),
        }
        let services = self.tracker.rendered();
        let applied = render::adopt(found, &rules.live, &services, options);
        let checked = render::check_adoption(&applied, &rules.live);
        Ok(checked.map(|()| applied))
    }

    async fn write_all(
        &mut self,
        live: &LiveChains,
        options: &Options,
    ) -> (PartialPayload, Result<Restored, Failure>) {
        let services = self.tracker.rendered();
        let payload = || FullPayload::new(&services, options, live);
        let mut full = payload();
        let restored = self.iptables.restore(&mut full, None).await;
        let (applied, stats) = full.finish();
        let restored =
            restored.map_err(|error| Failure::of_restore(error, payload, applied.services()));
        match &restored {
            Ok(_) => self.kernel = KernelState::Known(applied.into(), options.clone()),
            Err(failure) if failure.is_untouched() => {}
            Err(_) => {
                drop(applied);
                // Empty tables: if one cannot be printed, all recorded chains count as missing.
                if !self.observe_tables(LiveRules::of_tables()).await {
                    self.force_full(FullReason::Failed);
                }
            }
        }
        let partial = PartialPayload {
            stats,
            ..PartialPayload::default()
        };
        (partial, restored)
    }

    /// Compares all rules in the kernel with the record, after a restore that may have written a
    /// part of its payload. Tables that the iptables binaries cannot print count as `unprintable`.
    /// Returns whether the tables were read, and there is a record.
    pub(super) async fn observe_tables(&mut self, unprintable: LiveRules) -> bool {
        if self.kernel.record().is_none() {
            return false;
        }
        let read = self.read_rules(Some(LiveRules::of_tables())).await;
        let (Ok(rules), Some(applied)) = (read, self.kernel.record_mut()) else {
            return false;
        };
        applied.observe(&rules.found.unwrap_or(unprintable), &rules.live);
        applied.retain_due_jumps(&rules.live);
        true
    }

    /// Writes the changes of these Services, and all that is damaged. If there is nothing to write,
    /// no process is started. To be called only with a record.
    async fn write_changes(
        &mut self,
        names: &[ServiceName],
        partial_restore: PartialRestore,
        options: &Options,
    ) -> (PartialPayload, Result<Restored, Failure>) {
        let mut partial = self.render_changes(names, partial_restore, options);
        let restored = self.restore_changes(&mut partial, options, None).await;
        let has_due_jumps = |applied: &AppliedState| !applied.guarded_due().1.is_empty();
        if let Err(failure) = &restored
            && !failure.is_untouched()
            && self.kernel.record().is_some_and(has_due_jumps)
        {
            // The kernel may have a part of the payload: a jump must not be inserted twice. A full
            // restore reads the jumps first.
            if !self.observe_tables(LiveRules::of_chains()).await {
                self.force_full(FullReason::Failed);
            }
        }
        (partial, restored)
    }

    /// Restores a payload of changes, unless it is empty, and notes the result in the record.
    pub(super) async fn restore_changes(
        &mut self,
        partial: &mut PartialPayload,
        options: &Options,
        deadline: Option<Duration>,
    ) -> Result<Restored, Failure> {
        let payload = || Text::new(&partial.text);
        let rendered = std::mem::take(&mut partial.rendered);
        let restored = if partial.text.is_empty() {
            Ok(Restored::default())
        } else {
            let restored = self.iptables.restore(&mut payload(), deadline).await;
            restored.map_err(|error| Failure::of_restore(error, payload, rendered.services()))
        };
        if let KernelState::Known(applied, applied_options) = &mut self.kernel {
            match &restored {
                Ok(_) => {
                    applied.written(rendered);
                    *applied_options = options.clone();
                }
                Err(failure) if failure.is_untouched() => {}
                Err(_) => applied.maybe_written(rendered),
            }
        }
        restored
    }

    /// Renders the changes of some Services, and all that is damaged. The record gets their desired
    /// dispatch rules, and they are due until they are written: a restore that leaves the kernel
    /// untouched does not take that back.
    pub(super) fn render_changes(
        &mut self,
        names: &[ServiceName],
        partial_restore: PartialRestore,
        options: &Options,
    ) -> PartialPayload {
        let services = self.tracker.rendered();
        let Some(applied) = self.kernel.record_mut() else {
            return PartialPayload::default();
        };
        render::partial_payload(applied, &services, names.iter(), options, partial_restore)
    }

    /// Writes the recorded rules, as [`render::write_applied`] does; returns false if the rules in
    /// the kernel are unknown.
    pub fn write_applied(&self, sink: impl FnMut(&[u8])) -> bool {
        let KernelState::Known(applied, options) = &self.kernel else {
            return false;
        };
        render::write_applied(applied, self.tracker.applied(), options, sink);
        true
    }
}

/// Returns the result of a restore that was not made because the kernel could not be read.
fn failed_read(error: RunError) -> (PartialPayload, Result<Restored, Failure>) {
    (PartialPayload::default(), Err(Failure::Read(error)))
}

#[cfg(feature = "testing")]
#[path = "tests/verify.rs"]
mod verify;
