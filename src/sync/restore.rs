//! Restores of each scope: adopts the rules in the kernel, writes all rules, or writes the changed
//! ones.
//!
//! The [`syncer`](super::syncer) decides the scope. Each restore updates the applied state: a full
//! one after it succeeded, a partial one in advance.

use std::collections::BTreeSet;
use std::time::Duration;

use super::decide::{FullReason, Scope};
use super::kernel_state::{KernelRules, OnTransientFailure, ReadScope, read_rules};
use super::outcome::{Attempt, Failure, RestoreResult};
use super::syncer::{RenderedServices, Syncer};
use crate::host::{
    Iptables, RestoreError, Restored, RunError, after_tables, excerpt, is_untouched,
};
use crate::model::{ServiceName, Services};
use crate::render::{
    self, AppliedState, ComparedTables, Counter, Counters, DeclineReason, FullPayload, LiveChains,
    Options, PartialPayload, PartialRestore,
};
use crate::rules::{Payload, Table, Text};

impl<I: Iptables> Syncer<I> {
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
    /// adoption and the differences to write, or the reason that adoption is declined.
    pub(super) fn try_adopt(
        &self,
        rules: &mut KernelRules,
        options: &Options,
    ) -> Result<ComparedTables, DeclineReason> {
        let found = rules.found.take().ok_or(DeclineReason::Unreadable)?;
        let adopted = render::adopt(found, &rules.live, &self.rendered_services(), options)?;
        if rules.is_mangle_complete {
            Ok(adopted)
        } else {
            Err(DeclineReason::DispatchOrFixedChains(Table::Mangle))
        }
    }

    pub(super) async fn write_differences(
        &mut self,
        adopted: ComparedTables,
        options: &Options,
    ) -> RestoreResult {
        self.applied = adopted.applied;
        self.unwritten.clear();
        // `Kep3453` would also rewrite chains that do not differ.
        let partial_restore = PartialRestore::ChangedChains;
        self.write_changes(&adopted.differing, partial_restore, options)
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
        let (chains, jumps) = (&self.fixed_chains_to_repair, &self.jumps_to_repair);
        text.extend(render::repair_payload(chains, jumps, options));
        self.fixed_chains_to_repair.clear();
        self.jumps_to_repair.clear();
        partial.stats.bytes += text.len() as u64;
        partial.text.splice(..0, text);
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

/// Maximum size in bytes of a payload whose unwritten rest is kept after a failure that can be
/// [retried](RestoreError::committed_if_retriable). After a larger one, a full restore is better.
const MOST_UNWRITTEN: usize = 4 << 20;

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
