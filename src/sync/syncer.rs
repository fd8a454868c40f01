//! Syncs one IP family once: decides the scope, adopts the rules in the kernel, writes all rules or
//! the changed ones, and records the result.
//!
//! The [`task`](super::task) decides when it runs. Each restore updates the applied state: a full
//! one after it succeeded, a partial one in advance.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::decide::{FullReason, Scope, SyncHistory};
use super::drift::FixedChain;
use super::kernel_state::{KernelRules, OnTransientFailure, ReadScope, read_rules};
use super::outcome::{Attempt, Failure, Notices, Outcome, RestoreResult};
use super::pacer::SyncResult;
use super::quarantine::Quarantine;
use super::render_settings::RenderSettings;
use crate::host::{
    Iptables, RestoreError, Restored, RunError, after_tables, excerpt, is_untouched,
};
use crate::model::{ServiceName, ServiceState, Services};
use crate::render::{
    self, AppliedState, Counter, Counters, DeclineReason, FullPayload, LiveChains,
    NodePortAddresses, Options, PartialPayload, PartialRestore, PayloadStats, RerenderReason,
};
use crate::rules::{Payload, Table, Text};
use crate::ruleset::Jump;
use crate::tracker::{AppliedChanges, Tracker};

/// Maximum size in bytes of a payload whose unwritten rest is kept after a failure that can be
/// [retried](RestoreError::committed_if_retriable). After a larger one, a full restore is better.
const MOST_UNWRITTEN: usize = 4 << 20;

/// Configuration of a syncer, fixed for the life of the process.
#[derive(Debug, Clone)]
pub struct SyncerOptions {
    /// Source of the render options.
    pub render_settings: RenderSettings,
    /// Amount of rules that a partial restore writes.
    pub partial_restore: PartialRestore,
    /// Interval of periodic full syncs.
    pub full_sync_interval: Duration,
}

/// Source of the current time; tests replace it.
pub(crate) type Clock = fn() -> Instant;

/// Syncer of one IP family.
pub struct Syncer<I> {
    /// State of the cluster.
    pub tracker: Tracker,
    pub(super) iptables: I,
    pub(super) config: SyncerOptions,
    pub(super) clock: Clock,
    /// Rules that the kernel holds: those last written, corrected by what comparisons found. Valid
    /// only while [`Self::is_applied_state_valid`].
    pub(super) applied: AppliedState,
    pub(super) history: SyncHistory,
    /// Render options of the rules in the kernel; `None` while the state of the kernel is unknown.
    pub(super) applied_options: Option<Options>,
    /// Tables that could not be read for the last full sync or adoption.
    pub(super) unreadable_tables: BTreeSet<Table>,
    /// Problems that the current sync found so far.
    pub(super) notices: Notices,
    /// Number of reads of the kernel in a row that failed. It stays while a table counts as
    /// unreadable because of a transient failure.
    pub(super) failed_reads: u32,
    /// State of the kernel after a flush of the nat table that the last check found, which spares
    /// the next full sync a read; `None`: that sync reads the kernel.
    pub(super) after_flush: Option<LiveChains>,
    /// Fixed chains that the next sync rewrites.
    pub(super) fixed_chains_to_repair: BTreeSet<FixedChain>,
    /// Missing jumps that the next sync restores.
    pub(super) jumps_to_repair: Vec<&'static Jump>,
    /// Services whose rules in the kernel may differ: a comparison found damage, a search changed
    /// them, or their payload was not written. The next sync renders them even if they are not
    /// dirty, and writes what differs from the applied state.
    pub(super) services_to_repair: BTreeSet<ServiceName>,
    /// Rest of a payload that is in the applied state, but was not written, for example because
    /// another program held the xtables lock. The next partial restore begins with it.
    pub(super) unwritten: Vec<u8>,
    /// nfacct counters that the last full sync or adoption could create; `None` before the first
    /// one.
    pub(super) counters: Option<Counters>,
    /// Services in quarantine, and suspects.
    pub(super) quarantine: Quarantine,
    /// Duration of the last successful restore, full or partial.
    pub(super) restore_took: Duration,
    /// Until then a search has to prove first that the node can restore rules, because the last one
    /// found a fault of the node.
    pub(super) node_suspected_until: Option<Instant>,
}

impl<I: Iptables> Syncer<I> {
    /// Returns a syncer for a kernel of unknown state: the first sync adopts or is full.
    pub fn new(iptables: I, tracker: Tracker, config: SyncerOptions, clock: Clock) -> Self {
        let (applied, history) = (AppliedState::default(), SyncHistory::default());
        Self {
            tracker,
            iptables,
            config,
            clock,
            applied,
            history,
            applied_options: None,
            unreadable_tables: BTreeSet::new(),
            notices: Notices::default(),
            failed_reads: 0,
            after_flush: None,
            fixed_chains_to_repair: BTreeSet::new(),
            jumps_to_repair: Vec::new(),
            services_to_repair: BTreeSet::new(),
            unwritten: Vec::new(),
            counters: None,
            quarantine: Quarantine::default(),
            restore_took: Duration::ZERO,
            node_suspected_until: None,
        }
    }

    /// Returns the iptables binaries.
    pub const fn iptables(&self) -> &I {
        &self.iptables
    }

    /// Returns the time of the next retry of a Service in quarantine, or of the next part of a
    /// search, if there is one.
    pub fn next_retry(&self) -> Option<Instant> {
        self.quarantine.next_retry()
    }

    /// Reports whether the rest of an earlier payload was not written yet.
    pub(super) const fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Makes the next sync full.
    pub fn force_full(&mut self, reason: FullReason) {
        self.history.force_full(reason);
    }

    /// Reports whether the last full sync or adoption could not read a table, or nat has an
    /// unprintable rule.
    pub(super) fn has_unreadable_tables(&self) -> bool {
        !self.unreadable_tables.is_empty() || !self.applied.is_nat_printable()
    }

    /// Notes that an iptables binary cannot print all rules of a table. Only nat counts: on nft the
    /// nat part of a payload may begin with the command `-S`, so that `iptables-restore` fetches
    /// all chains together instead of one by one. `-S` fails at an unprintable rule, so payloads
    /// leave it out until a full sync has read the table.
    pub(super) fn note_unprintable(&mut self, table: Table) {
        if table == Table::Nat {
            self.applied.set_nat_unprintable();
        }
    }

    /// Returns the render options of the rules in the kernel; `None` while the state of the kernel
    /// is unknown.
    pub const fn applied_options(&self) -> Option<&Options> {
        self.applied_options.as_ref()
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

    /// Runs one sync. A failed partial restore is followed by a full one at once, unless it can be
    /// retried as it is: another program held the xtables lock, for example. A full restore that
    /// failed before it changed anything is followed by a partial one, unless options changed that
    /// fixed chains depend on: a partial one writes these only to repair them. The tracker marks a
    /// Service as applied only when the kernel has its rules, so a failed sync loses no change.
    pub async fn once(&mut self, node_addresses: &[IpAddr]) -> Outcome {
        let mut options = self
            .config
            .render_settings
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
        let mut search = if is_applied {
            None
        } else {
            self.search(&attempts, &mut options).await
        };
        let applied = match &mut search {
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
            rules: self.applied.rule_counts(),
            tree_chains: self.applied.tree_chain_count(),
            totals: self.applied.totals(),
            quarantined: Vec::new(),
        };
        if outcome.result() == SyncResult::Applied {
            self.continue_trials(&mut outcome, &mut options).await;
        }
        outcome.quarantined = self.tracker.overrides().keys().cloned().collect();
        outcome.notices = std::mem::take(&mut self.notices);
        outcome
    }

    /// Continues a search after a sync that was applied, or retries a Service in quarantine.
    async fn continue_trials(&mut self, outcome: &mut Outcome, options: &mut Options) {
        if outcome.search.is_some() {
            return;
        }
        outcome.search = self.continue_search(options).await;
        match &mut outcome.search {
            Some(search) => outcome
                .applied
                .append(self.mark_resolved_applied(search, options)),
            None => self.retry_quarantined(outcome, options).await,
        }
    }

    /// Marks all dirty Services as applied with these options, except those in quarantine and
    /// suspects.
    pub(super) fn mark_applied(&mut self, options: &Options) -> AppliedChanges {
        self.history.last_options = Some(options.clone());
        self.tracker.mark_rendered_applied()
    }

    fn scope(&self, options: &Options) -> Scope {
        let every = self.config.full_sync_interval;
        self.history.scope(options, every, (self.clock)())
    }

    /// Returns the scope of a second attempt after a failed first one; `None` if none could
    /// succeed. For a partial one it resets the counters in `options` to those in the kernel.
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
            (_, Failure::Restore(error, _)) if error.is_retriable() => None,
            (Scope::Partial | Scope::Adoption, Failure::Restore(..)) => {
                Some(Scope::Full(FullReason::Failed))
            }
            (Scope::Full(_), _) if self.is_applied_state_valid() => {
                // The rules in the kernel name the counters of the last sync that succeeded.
                options.counters = self.history.counters().unwrap_or_default();
                // A partial restore writes fixed chains only to repair them, and they depend on the
                // render options of which a change is `RerenderReason::Options`.
                let rewrite = self.history.rerender_reason(options);
                (rewrite != Some(RerenderReason::Options)).then_some(Scope::Partial)
            }
            _ => None,
        }
    }

    /// Returns the dirty Services that are rendered in their state in the cluster: not those in
    /// quarantine and suspects.
    pub(super) fn dirty(&self) -> impl Iterator<Item = &ServiceName> {
        let overrides = self.tracker.overrides();
        let dirty = self.tracker.dirty();
        dirty.filter(|name| !overrides.contains_key(*name))
    }

    /// Reports whether the applied state describes the kernel, apart from the rest in `unwritten`:
    /// the state of the kernel is known, and no full sync is forced, for example because a
    /// comparison found a flush.
    pub(super) const fn is_applied_state_valid(&self) -> bool {
        self.applied_options.is_some() && self.history.must_be_full.is_none()
    }

    async fn attempt(&mut self, scope: Scope, options: &mut Options) -> Attempt {
        let started = (self.clock)();
        let mut attempt = match scope {
            Scope::Adoption => self.adopt(options).await,
            Scope::Full(reason) => self.full(reason, options, None).await,
            Scope::Partial => self.partial(options).await,
        };
        let ended = (self.clock)();
        let took = ended.saturating_duration_since(started);
        attempt.took = took;
        match &attempt.result {
            Ok(()) => {
                // Each restore also wrote the rules of Services that lost a frontend or won one.
                self.tracker.mark_lost_frontends_applied();
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
            Err(failure) => self.note_failure(attempt.scope, failure, ended),
        }
        attempt
    }

    /// Notes the duration of a successful partial restore, if one was made.
    fn note_took(&mut self, stats: PayloadStats, took: Duration) {
        if stats.bytes > 0 {
            self.restore_took = took;
        }
    }

    /// Notes a failed attempt: the next sync is full if the state of the kernel is unknown; after a
    /// periodic full sync that failed before it changed anything, the next one is postponed.
    fn note_failure(&mut self, scope: Scope, failure: &Failure, now: Instant) {
        let is_retriable = matches!(failure, Failure::Restore(error, _)
            if error.is_retriable());
        let is_restore_failure = matches!(failure, Failure::Restore(..)) && !is_retriable;
        // Before a restore or an adoption succeeded, a failed read does not cause a full sync:
        // the next attempt may still adopt.
        let has_applied = self.history.has_applied();
        if self.applied_options.is_none() && (is_restore_failure || has_applied) {
            self.history.force_full(FullReason::Failed);
        } else if scope == Scope::Full(FullReason::Periodic) && !is_retriable {
            self.history.postpone(now);
        }
    }

    /// Reads all kube-proxy rules and writes those that differ, or all rules if those in the kernel
    /// cannot be adopted.
    pub(super) async fn adopt(&mut self, options: &mut Options) -> Attempt {
        self.make_counters(options).await;
        let read = self.read_rules(ReadScope::Adoption(options)).await;
        let (scope, declined, written) = match read {
            Err(error) => (Scope::Adoption, None, failed_read(error)),
            Ok(mut rules) => match self.try_adopt(&mut rules, options) {
                Ok(adopted) => {
                    let written = self.write_differences(adopted, options).await;
                    (Scope::Adoption, None, written)
                }
                Err(reason) => {
                    let written = self.write_all(&rules.live, options, None).await;
                    (Scope::Full(FullReason::First), Some(reason), written)
                }
            },
        };
        Attempt {
            declined,
            ..Attempt::new(scope, written)
        }
    }

    /// Reads chains and jumps in the kernel, and writes all rules. `deadline` is that of the
    /// restore; `None`: the usual one.
    pub(super) async fn full(
        &mut self,
        reason: FullReason,
        options: &mut Options,
        deadline: Option<Duration>,
    ) -> Attempt {
        self.make_counters(options).await;
        let known = self.after_flush.take().map(|live| KernelRules {
            live,
            ..KernelRules::default()
        });
        let read = match known {
            Some(known) => Ok(known),
            None => self.read_rules(ReadScope::Outlines).await,
        };
        let written = match read {
            Err(error) => failed_read(error),
            Ok(KernelRules { live, .. }) => self.write_all(&live, options, deadline).await,
        };
        Attempt::new(Scope::Full(reason), written)
    }

    /// Writes the differences from the applied state: for dirty Services, and for all Services if a
    /// render option changed on which the rules of all depend. That is so only after a full restore
    /// that failed and changed nothing.
    pub(super) async fn partial(&mut self, options: &Options) -> Attempt {
        let mut names: BTreeSet<ServiceName> = self.tracker.dirty().cloned().collect();
        if self.history.rerender_reason(options).is_some() {
            names.extend(self.tracker.all().map(|(name, _)| name.clone()));
        }
        names.retain(|name| !self.tracker.overrides().contains_key(name));
        // Includes Services in quarantine: their rules in the kernel are repaired as well.
        names.extend(std::mem::take(&mut self.services_to_repair));
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
        let (mut counters, mut first_failure) = (Counters::NONE, None);
        for counter in Counter::ALL {
            match self.iptables.make_counter(counter.name()).await {
                Ok(()) => counters.add(counter),
                Err(cause) => drop(first_failure.get_or_insert(cause)),
            }
        }
        options.counters = counters;
        if self.counters.replace(counters) != Some(counters) {
            self.notices.no_counter = first_failure;
        }
    }

    /// Reads the rules in the kernel. Newly unreadable tables become notices. The applied state
    /// stays valid if this fails.
    pub(super) async fn read_rules(
        &mut self,
        scope: ReadScope<'_>,
    ) -> Result<KernelRules, RunError> {
        let on_transient = OnTransientFailure::after(self.failed_reads);
        let read = read_rules(&self.iptables, scope, on_transient).await;
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

    /// Compares the rules in the kernel with the rendered ones. Returns the applied state after an
    /// adoption and the Services to write, or the reason that adoption is declined.
    pub(super) fn try_adopt(
        &self,
        rules: &mut KernelRules,
        options: &Options,
    ) -> Result<(AppliedState, BTreeSet<ServiceName>), DeclineReason> {
        let found = rules.found.take().ok_or(DeclineReason::Unreadable)?;
        let adopted = render::adopt(&found, &rules.live, &self.rendered_services(), options)?;
        if rules.is_mangle_complete {
            Ok(adopted)
        } else {
            Err(DeclineReason::DispatchOrFixedChains(Table::Mangle))
        }
    }

    pub(super) async fn write_differences(
        &mut self,
        (applied, differing): (AppliedState, BTreeSet<ServiceName>),
        options: &Options,
    ) -> RestoreResult {
        self.applied = applied;
        self.unwritten.clear();
        // `Kep3453` would also rewrite chains that do not differ.
        let partial_restore = PartialRestore::ChangedChains;
        let differing: Vec<_> = differing.into_iter().collect();
        self.write_changes(&differing, partial_restore, options)
            .await
    }

    async fn write_all(
        &mut self,
        live: &LiveChains,
        options: &Options,
        deadline: Option<Duration>,
    ) -> RestoreResult {
        if !self.is_applied_state_valid() {
            // Avoids two applied states of a large cluster in memory.
            self.forget_kernel();
        }
        let services = self.rendered_services();
        let payload = || FullPayload::new(&services, options, live);
        let mut full = payload();
        let restored = self.restore_payload(&mut full, deadline).await;
        let is_untouched = restored
            .as_ref()
            .is_err_and(|error| is_untouched(error, &mut payload()));
        let restored = restored.map_err(|error| Failure::of_restore(error, &mut payload()));
        let (applied, stats) = full.finish();
        if !is_untouched {
            self.forget_kernel();
        }
        if restored.is_ok() {
            self.applied = applied;
            self.applied_options = Some(options.clone());
            self.fixed_chains_to_repair.clear();
            self.jumps_to_repair.clear();
            self.services_to_repair.clear();
        }
        let partial = PartialPayload {
            stats,
            ..PartialPayload::default()
        };
        (partial, restored)
    }

    /// Writes the rest of an earlier payload, repairs of fixed chains and jumps, and the changes of
    /// these Services. If there is nothing to write, no process is started.
    async fn write_changes(
        &mut self,
        names: &[ServiceName],
        partial_restore: PartialRestore,
        options: &Options,
    ) -> RestoreResult {
        let mut partial = self.render_and_record(names, partial_restore, options);
        let mut text = std::mem::take(&mut self.unwritten);
        let chains = std::mem::take(&mut self.fixed_chains_to_repair);
        let jumps = std::mem::take(&mut self.jumps_to_repair);
        text.extend(render::repair_payload(&chains, &[], options));
        text.append(&mut partial.text);
        // Last, because the chains that they jump to may have been missing.
        text.extend(render::repair_payload(&BTreeSet::new(), &jumps, options));
        partial.stats.bytes = text.len() as u64;
        partial.text = text;
        let restored = if partial.text.is_empty() {
            Ok(Restored::default())
        } else {
            self.restore_payload(&mut Text::new(&partial.text), None)
                .await
        };
        match &restored {
            Ok(_) => self.applied_options = Some(options.clone()),
            Err(error) => match error.committed_if_retriable() {
                Some(tables) if partial.text.len() <= MOST_UNWRITTEN => {
                    self.unwritten = after_tables(&partial.text, tables).to_vec();
                    // Their changes may be taken back before the rest is written.
                    self.services_to_repair.extend(names.iter().cloned());
                }
                _ => self.forget_kernel(),
            },
        }
        let restored =
            restored.map_err(|error| Failure::of_restore(error, &mut Text::new(&partial.text)));
        (partial, restored)
    }

    /// Renders the changes of some Services, and updates the applied state in advance. If the
    /// restore fails, the caller has to undo that, to keep the unwritten rest of the text, or to
    /// forget the kernel.
    pub(super) fn render_and_record(
        &mut self,
        names: &[ServiceName],
        partial_restore: PartialRestore,
        options: &Options,
    ) -> PartialPayload {
        let services = RenderedServices(&self.tracker);
        render::partial_payload(
            &mut self.applied,
            &services,
            names.iter(),
            options,
            partial_restore,
        )
    }

    /// Restores a payload within this deadline; `None`: the usual one.
    pub(super) async fn restore_payload(
        &self,
        payload: &mut dyn Payload,
        deadline: Option<Duration>,
    ) -> Result<Restored, RestoreError> {
        match deadline {
            Some(deadline) => self.iptables.restore_within(payload, deadline).await,
            None => self.iptables.restore(payload).await,
        }
    }

    /// Returns the Services as they are rendered.
    pub(super) const fn rendered_services(&self) -> RenderedServices<'_> {
        RenderedServices(&self.tracker)
    }

    /// Clears the applied state, because the state of the kernel is unknown.
    pub(super) fn forget_kernel(&mut self) {
        self.applied = AppliedState::default();
        self.applied_options = None;
        self.unwritten.clear();
        self.fixed_chains_to_repair.clear();
        self.jumps_to_repair.clear();
        self.services_to_repair.clear();
    }
}

/// Services as they are rendered: in their state in the cluster, or in that of their override.
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

/// Returns the result of a restore that was not made because the kernel could not be read.
fn failed_read(error: RunError) -> RestoreResult {
    (PartialPayload::default(), Err(Failure::Read(error)))
}

impl Failure {
    /// Returns the failure of a restore, with an excerpt of the payload around a rejected line;
    /// `again` is the same payload from its beginning.
    pub(super) fn of_restore(error: RestoreError, again: &mut dyn Payload) -> Self {
        let shown = match &error {
            RestoreError::Rejected { line, .. } => Some(excerpt(again, *line)),
            _ => None,
        };
        Self::Restore(error, shown)
    }
}
