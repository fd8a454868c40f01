//! Compares the rules in the kernel with the applied state, and notes the repairs for the next
//! sync.
//!
//! Reading is separate from comparing, because the iptables binaries may hang for minutes, and the
//! task has to receive changes of the cluster meanwhile. The comparison itself does no I/O. Guarded
//! chains are checked while they are read.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::decide::FullReason;
use super::drift::{ComparisonDepth, Drift, DriftKind, Extent, RepairKey};
use super::guarded_chain_monitor::{GuardedChainFindings, GuardedChainMonitor};
use super::kernel_state::{KernelRules, OnTransientFailure, ReadScope, TableLoss, read_rules};
use super::syncer::{KernelState, Syncer};
use crate::host::{Iptables, ListedChains, ProgramExit, RunError};
use crate::render::{self, AppliedState, LiveChains, LiveRules, Options};
use crate::rules::Table;
use crate::ruleset::holds_dispatch_rules;

/// Maximum number of chains that are listed one by one, each by a process of its own, after one
/// process could not list all of them. More are rewritten without being listed.
const MOST_SINGLE: usize = 16;

/// Rules that were read from the kernel.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Findings of the check of the guarded chains.
    pub(super) guarded: GuardedChainFindings,
    /// Rules of whole tables or of single chains. Chains of Services that could not be read count
    /// as missing, so that they are rewritten.
    pub(super) rules: LiveRules,
    /// Outlines of the filter and nat tables; `None` if whole tables were not read.
    pub(super) whole: Option<LiveChains>,
    /// Tables for which this reading replaces earlier findings about jumps: those of the extent
    /// whose built-in chains could be printed. After a flush it may have tables that were not
    /// checked, which does no harm: a full sync follows.
    pub(super) tables: BTreeSet<Table>,
    /// First failure of an iptables binary. Rules that it does not concern were read.
    pub(super) failure: Option<RunError>,
    /// Rules that could not be read, to read again later.
    pub(super) to_reread: Extent,
    /// A change by another program interrupted the reading: only the guarded chains were
    /// checked.
    pub(super) is_interrupted: bool,
}

impl Reading {
    /// Returns the complete part of a reading that was abandoned after this time: the check of the
    /// guarded chains, or what `guarded` has of one that did not end.
    pub(super) fn abandoned(
        self,
        extent: &Extent,
        guarded: Option<GuardedChainFindings>,
        after: Duration,
    ) -> Self {
        Self {
            guarded: guarded.unwrap_or(self.guarded),
            tables: self.tables,
            rules: missing_service_chains(extent),
            // No program failed: the reading would have delayed a due sync. Logs show it as a
            // timeout.
            failure: Some(RunError::Failed {
                program: "iptables-save".to_owned(),
                exit: ProgramExit::TimedOut(after),
                stderr: String::new(),
            }),
            to_reread: extent.to_read_again(),
            ..Self::default()
        }
    }

    /// Returns the complete part of an interrupted reading: the check of the guarded chains.
    pub(super) fn interrupted(self) -> Self {
        Self {
            guarded: self.guarded,
            tables: self.tables,
            is_interrupted: true,
            ..Self::default()
        }
    }

    /// Returns the depth that the comparison counts as. A failed reading keeps the intended one, so
    /// that its verification counts as failed. A reading that ended without a failure before it
    /// read whole tables, because of a missing chain or an interruption, counts as `Chains`.
    pub(super) const fn depth(&self, intended: ComparisonDepth) -> ComparisonDepth {
        if self.failure.is_none() && self.whole.is_none() {
            ComparisonDepth::Chains
        } else {
            intended
        }
    }

    /// Notes a failure. After a transient one the rules are read again later; another one, such as
    /// an unprintable rule, would only repeat.
    fn fail(&mut self, cause: RunError, extent: &Extent) {
        if cause.is_transient() {
            self.to_reread.merge(extent.to_read_again());
        }
        self.failure.get_or_insert(cause);
    }
}

/// Checks the guarded chains of an extent.
pub(super) async fn check_guarded_chains(
    guarded_chains: &mut GuardedChainMonitor,
    iptables: &impl Iptables,
    options: &Options,
    extent: &Extent,
    now: Instant,
) -> Reading {
    let tables: Vec<Table> = extent.tables.iter().copied().collect();
    let guarded = guarded_chains.check(iptables, options, &tables, now).await;
    let unreadable = guarded_chains.unreadable();
    Reading {
        tables: extent.tables.difference(unreadable).copied().collect(),
        guarded,
        ..Reading::default()
    }
}

/// Reads the other rules of an extent, unless the check found a flushed table.
pub(super) async fn read_service_rules(
    reading: &mut Reading,
    iptables: &impl Iptables,
    extent: &Extent,
    applied: &AppliedState,
) {
    if reading.guarded.gone.is_some() {
        return;
    }
    let mut dispatch_chains = extent.dispatch_chains.clone();
    if extent.depth == ComparisonDepth::Whole {
        read_whole_tables(reading, iptables, extent).await;
        if reading.whole.is_some() {
            return;
        }
        // Without the whole tables, dispatch chains are listed one by one: an unprintable rule in
        // another chain does not affect that.
        dispatch_chains.extend(applied.dispatch_and_tree_chains());
    }
    reading.rules = missing_service_chains(extent);
    for (table, chain) in &dispatch_chains {
        match iptables.list(*table, &[chain]).await {
            Ok(ListedChains::Whole(text)) => reading.rules.read_listing(*table, &text),
            Ok(ListedChains::Missing | ListedChains::Truncated { .. }) => {
                reading.rules.note_missing(*table, chain);
            }
            Err(cause) => reading.fail(cause, extent),
        }
    }
    list_service_chains(&mut reading.rules, iptables, &extent.service_chains).await;
}

/// Returns a reading of single chains that has none of the extent's chains of Services.
fn missing_service_chains(extent: &Extent) -> LiveRules {
    let mut rules = LiveRules::default();
    for chain in &extent.service_chains {
        rules.note_missing(Table::Nat, chain);
    }
    rules
}

/// Reads all kube-proxy rules in the filter and nat tables, or notes why they cannot be read.
async fn read_whole_tables(reading: &mut Reading, iptables: &impl Iptables, extent: &Extent) {
    let (scope, on_transient) = (ReadScope::Verification, OnTransientFailure::Unreadable);
    match read_rules(iptables, scope, on_transient).await {
        Ok(KernelRules {
            live,
            found: Some(found),
            ..
        }) => {
            reading.rules = found;
            reading.whole = Some(live);
        }
        Ok(KernelRules { unreadable, .. }) => {
            for (_, cause) in unreadable {
                reading.fail(cause, extent);
            }
        }
        Err(cause) => reading.fail(cause, extent),
    }
}

/// Lists chains of Services, as far as the iptables binary can.
async fn list_service_chains(
    rules: &mut LiveRules,
    iptables: &impl Iptables,
    chains: &BTreeSet<Box<str>>,
) {
    let chains: Vec<&str> = chains.iter().map(|chain| &**chain).collect();
    if chains.is_empty() {
        return;
    }
    if let Ok(ListedChains::Whole(text)) = iptables.list(Table::Nat, &chains).await {
        return rules.read_listing(Table::Nat, &text);
    }
    if chains.len() > MOST_SINGLE {
        return;
    }
    // A missing or unprintable chain must not hide the others.
    for chain in chains {
        if let Ok(ListedChains::Whole(text)) = iptables.list(Table::Nat, &[chain]).await {
            rules.read_listing(Table::Nat, &text);
        }
    }
}

impl<I: Iptables> Syncer<I> {
    /// Compares the rules that were read with the applied state, which describes the kernel
    /// afterwards, unless a full sync is forced; the next sync writes what differs from the
    /// rendered rules.
    ///
    /// Another program keeps changing what is in `contested`, so that its repair will be delayed.
    pub(super) fn find_drift(
        &mut self,
        reading: &mut Reading,
        contested: &BTreeSet<RepairKey>,
    ) -> Drift {
        let mut drift = Drift::default();
        let guarded = &reading.guarded;
        let Some(applied) = self.kernel.record_mut() else {
            return drift;
        };
        for (table, chain) in guarded
            .incomplete_chains
            .iter()
            .copied()
            .chain(guarded.due_rewrites.iter().map(|edited| edited.chain))
        {
            drift.add(table, DriftKind::FixedChain, chain);
            applied.add_due_fixed_chain((table, chain));
        }
        for jump in &guarded.missing_jumps {
            drift.add(jump.table, DriftKind::Jump, jump.from);
        }
        // A jump that an earlier check found missing may exist again.
        applied.set_due_jumps(&reading.tables, &guarded.missing_jumps);
        if let Some((table, loss)) = &guarded.gone {
            drift.add_unnamed(*table, DriftKind::FlushedTable, 1);
            // A delayed sync reads the kernel: another program may have changed it again.
            let is_delayed = !drift.repair_keys.is_disjoint(contested);
            let outlines = if is_delayed {
                None
            } else {
                self.state_after_flush(*table, loss)
            };
            self.kernel = KernelState::Unknown {
                reason: FullReason::Flushed,
                outlines,
            };
            return drift;
        }
        self.compare_rules(reading, &mut drift);
        drift
    }

    /// Returns the state of the kernel after a flush of the nat table: the chains of the applied
    /// state without the missing jumps. It spares the next full sync a read, which takes an eighth
    /// of the time from a flush to its repair. `None` if that sync has to read it, for example
    /// because a table before nat was flushed, so that nat was not checked.
    fn state_after_flush(&self, table: Table, loss: &TableLoss) -> Option<LiveChains> {
        let TableLoss::Flushed { missing_jumps } = loss else {
            return None;
        };
        if table != Table::Nat || self.has_unreadable_tables() {
            return None;
        }
        let applied = self.kernel.record()?;
        let (_, jumps_due) = applied.guarded_due();
        let missing: Vec<_> = missing_jumps.iter().chain(jumps_due).copied().collect();
        Some(LiveChains::with_chains(applied, &missing))
    }

    /// Compares chains of Services, dispatch chains and tree chains with the applied state.
    fn compare_rules(&mut self, reading: &mut Reading, drift: &mut Drift) {
        let KernelState::Known(applied, options) = &mut self.kernel else {
            return;
        };
        let (options, whole) = (options.clone(), reading.whole.take());
        let live = whole.as_ref();
        let rules = std::mem::take(&mut reading.rules);
        let differing = applied.observe(&rules, live.unwrap_or(&LiveChains::default()));
        drop(rules);
        if live.is_some() && applied.is_mostly_damaged() {
            drift.add_unnamed(Table::Nat, DriftKind::UnrepairableServiceChains, 1);
            return self.force_full(FullReason::Flushed);
        }
        for (table, chain) in differing {
            let kind = if holds_dispatch_rules(table, &chain) {
                DriftKind::DispatchChain
            } else {
                DriftKind::ServiceChain
            };
            drift.add(table, kind, &chain);
        }
        if live.is_some() {
            self.compare_with_rendered(&options, drift);
        }
    }

    /// Proves that partial restores have added up to a full one: compares the applied state with
    /// all Services as rendered, except those that the next sync writes.
    fn compare_with_rendered(&mut self, options: &Options, drift: &mut Drift) {
        let KernelState::Known(applied, _) = &self.kernel else {
            return;
        };
        let lost = self.tracker.with_changed_losses();
        let due = applied
            .due()
            .chain(self.dirty())
            .chain(lost)
            .cloned()
            .collect();
        let services = self.rendered_services();
        let unlike = render::unlike_rendered(applied, &services, options, &due);
        for name in unlike {
            if let Some(applied) = self.kernel.record_mut() {
                applied.add_due(&name);
            }
            drift.add_service(name);
        }
    }
}
