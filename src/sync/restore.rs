//! Adopts the rules in the kernel, writes all rules, or writes the changed ones.
//!
//! The [`syncer`](super::syncer) decides between them. Each of them updates the applied state.

use std::collections::BTreeSet;

use super::decide::{FullReason, Scope};
use super::kernel_state::{Inspection, OnNoAnswer, ReadScope, after_tables, inspect, is_untouched};
use super::outcome::{Attempt, Failure, RestoreResult};
use super::syncer::{RenderedServices, Syncer};
use crate::host::{CounterError, Iptables, RestoreError, Restored, RunError, excerpt};
use crate::model::{ServiceName, Services};
use crate::render::{
    self, Adopted, AppliedState, Counter, Counters, DeclineReason, Full, LiveChains, Options,
    Partial, PartialRestore, RenderContext,
};
use crate::rules::{Payload, Table, Text};

impl<I: Iptables> Syncer<I> {
    /// Reads all kube-proxy rules and writes the differences, or everything if the rules cannot be
    /// adopted.
    pub(super) async fn adopt(&mut self, options: &mut Options) -> Attempt {
        let no_counter = self.make_counters(options).await;
        let inspected = self.inspect(ReadScope::Adoption(options)).await;
        let (scope, unread, declined, written) = match inspected {
            Err(error) => (Scope::Adoption, Vec::new(), None, unwritten(error)),
            Ok(mut inspection) => {
                let unread = std::mem::take(&mut inspection.unread);
                match self.compare(&mut inspection, options) {
                    Ok(adopted) => {
                        let written = self.write_differences(adopted, options).await;
                        (Scope::Adoption, unread, None, written)
                    }
                    Err(reason) => {
                        let written = self.write_all(&inspection.live, options).await;
                        let scope = Scope::Full(FullReason::First);
                        (scope, unread, Some(reason), written)
                    }
                }
            }
        };
        Attempt {
            no_counter,
            unread,
            declined,
            ..Attempt::new(scope, written)
        }
    }

    /// Reads chains and jumps in the kernel, and writes all rules.
    pub(super) async fn full(&mut self, reason: FullReason, options: &mut Options) -> Attempt {
        let no_counter = self.make_counters(options).await;
        let known = self.after_flush.take().map(|live| Inspection {
            live,
            ..Inspection::default()
        });
        let inspected = match known {
            Some(known) => Ok(known),
            None => self.inspect(ReadScope::Outlines).await,
        };
        let (unread, written) = match inspected {
            Err(error) => (Vec::new(), unwritten(error)),
            Ok(Inspection { live, unread, .. }) => (unread, self.write_all(&live, options).await),
        };
        Attempt {
            no_counter,
            unread,
            ..Attempt::new(Scope::Full(reason), written)
        }
    }

    /// Writes the differences from the applied state: of changed Services, or of all if options
    /// changed.
    pub(super) async fn partial(&mut self, options: &Options) -> Attempt {
        let mut names: BTreeSet<ServiceName> = self.tracker.dirty().cloned().collect();
        if self
            .history
            .rerender_reason(self.setting(options))
            .is_some()
        {
            names.extend(self.tracker.all().map(|(name, _)| name.clone()));
        }
        names.retain(|name| !self.quarantine.has(name));
        // Includes Services in quarantine: they are rendered as last applied.
        names.extend(std::mem::take(&mut self.drifted));
        // Includes Services in quarantine: frontends that another Service takes are lost at once.
        names.extend(self.tracker.shifted().cloned());
        let names: Vec<_> = names.into_iter().collect();
        let written = self.write(&names, self.options.shape, options).await;
        Attempt::new(Scope::Partial, written)
    }

    /// Creates the nfacct counters: another program may have deleted an unused one. Rules name
    /// only counters that exist.
    ///
    /// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "ensure the nfacct counters"
    /// (v1.36)
    async fn make_counters(&mut self, options: &mut Options) -> Option<CounterError> {
        let (mut counters, mut why_not) = (Counters::NONE, None);
        for counter in Counter::ALL {
            match self.iptables.make_counter(counter.name()).await {
                Ok(()) => counters.add(counter),
                Err(cause) => drop(why_not.get_or_insert(cause)),
            }
        }
        options.counters = counters;
        let before = self.counters.replace(counters);
        why_not.filter(|_| before != Some(counters))
    }

    /// Reads the rules in the kernel. The applied state stays valid if this fails.
    pub(super) async fn inspect(&mut self, scope: ReadScope<'_>) -> Result<Inspection, RunError> {
        let no_answer = OnNoAnswer::after(self.unanswered);
        let inspected = inspect(&self.iptables, scope, no_answer).await;
        let mut inspection = inspected.inspect_err(|_| self.unanswered += 1)?;
        if !inspection
            .unread
            .iter()
            .any(|(_, error)| error.is_transient())
        {
            self.unanswered = 0;
        }
        // Keeps only tables that were readable before.
        let now = inspection.unread.iter().map(|(table, _)| *table).collect();
        let before = std::mem::replace(&mut self.unread, now);
        inspection
            .unread
            .retain(|(table, _)| !before.contains(table));
        Ok(inspection)
    }

    /// Compares the rules in the kernel with the desired ones, for an adoption.
    pub(super) fn compare(
        &self,
        inspection: &mut Inspection,
        options: &Options,
    ) -> Result<Adopted, DeclineReason> {
        let found = inspection.found.take().ok_or(DeclineReason::Unreadable)?;
        let adopted = render::adopt(
            found,
            &inspection.live,
            &self.rendered_services(),
            self.setting(options),
        )?;
        if inspection.is_mangle_complete {
            Ok(adopted)
        } else {
            Err(DeclineReason::SharedChains(Table::Mangle))
        }
    }

    async fn write_differences(&mut self, adopted: Adopted, options: &Options) -> RestoreResult {
        self.applied = adopted.applied;
        self.unwritten.clear();
        // The other shape would rewrite rules that are right.
        let shape = PartialRestore::ChangedChains;
        self.write(&adopted.differing, shape, options).await
    }

    async fn write_all(&mut self, live: &LiveChains, options: &Options) -> RestoreResult {
        if !self.knows_kernel() {
            // Avoids two applied states of a large cluster in memory.
            self.forget_kernel();
        }
        let view = self.rendered_services();
        let payload = || Full::new(&view, self.setting(options), live);
        let mut full = payload();
        let restored = self.restore_payload(&mut full).await;
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
            self.written = Some(options.clone());
            self.repairs.clear();
            self.lost_jumps.clear();
            self.drifted.clear();
        }
        let partial = Partial {
            stats,
            ..Partial::default()
        };
        (partial, restored)
    }

    /// Writes leftover text of earlier restores, repairs of fixed chains, and changes of Services.
    /// If there is nothing to write, no process is started.
    async fn write(
        &mut self,
        names: &[ServiceName],
        shape: PartialRestore,
        options: &Options,
    ) -> RestoreResult {
        let mut partial = self.render(names, shape, options);
        let mut text = std::mem::take(&mut self.unwritten);
        let (chains, jumps) = (&self.repairs, &self.lost_jumps);
        text.extend(render::repair(chains, jumps, options));
        self.repairs.clear();
        self.lost_jumps.clear();
        partial.stats.bytes += text.len() as u64;
        partial.text.splice(..0, text);
        let restored = if partial.text.is_empty() {
            Ok(Restored::default())
        } else {
            self.restore_payload(&mut Text::new(&partial.text)).await
        };
        match &restored {
            Ok(_) => self.written = Some(options.clone()),
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

    /// Renders the changes of some Services, and records them as applied.
    pub(super) fn render(
        &mut self,
        names: &[ServiceName],
        shape: PartialRestore,
        options: &Options,
    ) -> Partial {
        let zone = self.tracker.node().and_then(|node| node.zone.as_deref());
        let setting = RenderContext { options, zone };
        let view = RenderedServices(&self.tracker);
        render::partial(&mut self.applied, &view, names.iter(), setting, shape)
    }

    /// Restores a payload within the current deadline.
    pub(super) async fn restore_payload(
        &self,
        payload: &mut dyn Payload,
    ) -> Result<Restored, RestoreError> {
        match self.deadline {
            Some(deadline) => self.iptables.restore_within(payload, deadline).await,
            None => self.iptables.restore(payload).await,
        }
    }

    /// Returns the Services as they are rendered.
    pub(super) const fn rendered_services(&self) -> RenderedServices<'_> {
        RenderedServices(&self.tracker)
    }

    /// Notes that the state of the kernel is unknown.
    pub(super) fn forget_kernel(&mut self) {
        self.applied = AppliedState::default();
        self.written = None;
        self.unwritten.clear();
        self.repairs.clear();
        self.lost_jumps.clear();
        self.drifted.clear();
    }

    /// Returns the inputs that all Services of one payload share.
    pub(super) fn setting<'a>(&'a self, options: &'a Options) -> RenderContext<'a> {
        let zone = self.tracker.node().and_then(|node| node.zone.as_deref());
        RenderContext { options, zone }
    }
}

/// Maximum size of text that waits for the xtables lock, in bytes. Beyond it a full restore is
/// better.
const MOST_UNWRITTEN: usize = 4 << 20;

fn unwritten(error: RunError) -> RestoreResult {
    (Partial::default(), Err(Failure::Save(error)))
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
