//! Compares the rules in the kernel with the applied ones, and notes the repairs for the next
//! sync.
//!
//! Reading is separate from comparing: programs that read may hang for minutes, while changes of
//! the cluster are received; a comparison is a function of the rules that were read.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::decide::FullReason;
use super::drift::{ChainKey, ComparisonDepth, Drift, DriftKind, Extent};
use super::guarded_chain_check::{CheckResult, GuardedChainCheck};
use super::kernel_state::{Inspection, OnNoAnswer, ReadScope, TableLoss, inspect};
use super::syncer::{RenderedServices, Syncer};
use crate::host::{Iptables, ListedChains, ProgramExit, RunError};
use crate::model::ServiceName;
use crate::render::{
    self, AppliedState, DeclineReason, DispatchRepair, LiveChains, LiveRules, Options,
    RenderContext,
};
use crate::rules::Table;

/// Maximum number of chains that are listed one by one, each by a process: a change of one Service
/// touches a few.
const MOST_SINGLE: usize = 16;

/// Rules that were read from the kernel.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Findings of the check of fixed chains and jumps.
    pub(super) check: CheckResult,
    /// Listings of dispatch chains; `None`: the chain is missing, or has an unprintable rule.
    pub(super) dispatch: Vec<(Table, Box<str>, Option<String>)>,
    /// Chains of Services that may have been changed.
    pub(super) services: BTreeSet<Box<str>>,
    /// Listing of `services`; `None`: it could not be read.
    pub(super) service_listing: Option<String>,
    /// All rules, with chains and jumps, after a read of whole tables.
    pub(super) whole: Option<(LiveRules, LiveChains)>,
    /// Tables whose fixed chains and jumps were checked.
    pub(super) tables: BTreeSet<Table>,
    /// First failure of a program. The other rules were read.
    pub(super) failure: Option<RunError>,
    /// Rules to read again later.
    pub(super) unread: Extent,
    /// The reading was interrupted by a change: only fixed chains and jumps were checked.
    pub(super) gave_way: bool,
}

impl Reading {
    /// Returns the result of a reading that was abandoned after this time.
    pub(super) fn abandoned(extent: &Extent, check: CheckResult, after: Duration) -> Self {
        Self {
            check,
            services: extent.services.clone(),
            failure: Some(RunError::Failed {
                program: "iptables-save".to_owned(),
                exit: ProgramExit::TimedOut(after),
                stderr: String::new(),
            }),
            unread: extent.to_read_again(),
            ..Self::default()
        }
    }

    /// Returns the complete part of an interrupted reading: the check of fixed chains and jumps.
    pub(super) fn interrupted(self) -> Self {
        Self {
            check: self.check,
            tables: self.tables,
            gave_way: true,
            ..Self::default()
        }
    }

    /// Notes a failure. Rules are read again after a transient one, but not because of an
    /// unprintable rule.
    fn fail(&mut self, cause: RunError, extent: &Extent) {
        if cause.is_transient() {
            self.unread.merge(extent.to_read_again());
        }
        self.failure.get_or_insert(cause);
    }
}

/// Checks the fixed chains and jumps of an extent.
pub(super) async fn check_guarded_chains(
    guarded_chains: &mut GuardedChainCheck,
    iptables: &impl Iptables,
    options: &Options,
    extent: &Extent,
    now: Instant,
) -> Reading {
    let tables: Vec<Table> = extent.tables.iter().copied().collect();
    let check = guarded_chains
        .check(iptables, Some(options), &tables, now)
        .await;
    let unreadable = guarded_chains.unreadable();
    Reading {
        services: extent.services.clone(),
        tables: extent.tables.difference(unreadable).copied().collect(),
        check,
        ..Reading::default()
    }
}

/// Reads the other rules of an extent, unless the check found a flushed table.
pub(super) async fn read_others(reading: &mut Reading, iptables: &impl Iptables, extent: &Extent) {
    if reading.check.gone.is_some() {
        return;
    }
    let mut dispatch = extent.dispatch.clone();
    if extent.depth == ComparisonDepth::Whole {
        match inspect(iptables, ReadScope::AllOfOurs, OnNoAnswer::Unreadable).await {
            Ok(Inspection {
                live,
                found: Some(found),
                ..
            }) => {
                reading.whole = Some((found, live));
                reading.services.clear();
                return;
            }
            Ok(Inspection { unread, .. }) => {
                for (_, cause) in unread {
                    reading.fail(cause, extent);
                }
            }
            Err(cause) => reading.fail(cause, extent),
        }
        // An unprintable rule in another chain does not keep a single chain from being listed.
        dispatch
            .extend(AppliedState::dispatch_chains().map(|(table, chain)| (table, chain.into())));
    }
    for (table, chain) in &dispatch {
        match iptables.list(*table, &[chain]).await {
            Ok(ListedChains::Whole(text)) => {
                reading.dispatch.push((*table, chain.clone(), Some(text)));
            }
            Ok(ListedChains::Missing | ListedChains::Truncated { .. }) => {
                reading.dispatch.push((*table, chain.clone(), None));
            }
            Err(cause) => reading.fail(cause, extent),
        }
    }
    reading.service_listing = list_services(iptables, &extent.services).await;
}

/// Lists chains of Services; `None` if they cannot be listed, so that they are rewritten.
async fn list_services(iptables: &impl Iptables, chains: &BTreeSet<Box<str>>) -> Option<String> {
    let chains: Vec<&str> = chains.iter().map(|chain| &**chain).collect();
    if chains.is_empty() {
        return None;
    }
    if let Ok(ListedChains::Whole(text)) = iptables.list(Table::Nat, &chains).await {
        return Some(text);
    }
    if chains.len() > MOST_SINGLE {
        return None;
    }
    // A missing or unprintable chain must not hide the others.
    let mut listing = String::new();
    for chain in chains {
        if let Ok(ListedChains::Whole(text)) = iptables.list(Table::Nat, &[chain]).await {
            listing += &text;
        }
    }
    Some(listing)
}

impl<I: Iptables> Syncer<I> {
    /// Compares the rules that were read with the applied ones. Afterwards the applied state
    /// describes the kernel, and the next sync restores the difference.
    ///
    /// Dispatch chains in `contested` are rewritten as a whole.
    pub(super) fn compare_with(
        &mut self,
        reading: &mut Reading,
        contested: &BTreeSet<ChainKey>,
    ) -> Drift {
        let mut drift = Drift::default();
        self.after_flush = None;
        let check = &reading.check;
        // A jump that was missing before may exist again.
        self.lost_jumps
            .retain(|jump| !reading.tables.contains(&jump.table));
        for (table, chain) in check
            .incomplete
            .iter()
            .copied()
            .chain(check.edited.iter().map(|edited| edited.chain))
        {
            drift.add(table, DriftKind::FixedChain, chain);
            self.repairs.insert((table, chain));
        }
        for jump in &check.missing {
            drift.add(jump.table, DriftKind::Jump, jump.from);
            if !self.lost_jumps.contains(jump) {
                self.lost_jumps.push(jump);
            }
        }
        if let Some((table, loss)) = &check.gone {
            drift.add_unnamed(*table, DriftKind::FlushedTable, 1);
            self.force_full(FullReason::Flushed);
            self.after_flush = self.flushed(*table, loss);
            return drift;
        }
        self.compare_services(reading, &mut drift);
        for (table, chain, listing) in &reading.dispatch {
            let key = (*table, chain.clone());
            let repair = if contested.contains(&key) {
                DispatchRepair::Chain
            } else {
                DispatchRepair::Rules
            };
            if self.differs_in_dispatch(&key, listing.as_deref(), repair) {
                drift.add(*table, DriftKind::DispatchChain, chain);
            }
        }
        if let Some((found, live)) = reading.whole.take() {
            self.compare_all(found, &live, &mut drift);
        }
        drift
    }

    /// Returns the state of the kernel after a flush of the nat table, the last table of a check;
    /// `None` if it has to be read. A read takes an eighth of the time from the flush to its
    /// repair.
    fn flushed(&self, table: Table, loss: &TableLoss) -> Option<LiveChains> {
        let TableLoss::Flushed { missing } = loss else {
            return None;
        };
        if table != Table::Nat || self.has_unreadable_tables() {
            return None;
        }
        let missing: Vec<_> = missing.iter().chain(&self.lost_jumps).copied().collect();
        Some(LiveChains::with_chains(self.applied.chains(), &missing))
    }

    fn compare_services(&mut self, reading: &Reading, drift: &mut Drift) {
        let Some(options) = &self.written else {
            return;
        };
        if reading.services.is_empty() {
            return;
        }
        let setting = RenderContext {
            options,
            zone: self.history.zone.as_deref(),
        };
        let listing = reading.service_listing.as_deref();
        let services = RenderedServices(&self.tracker);
        let differing = self
            .applied
            .verify_chains(&reading.services, listing, &services, setting);
        if differing.is_empty() {
            return;
        }
        let is_changing = self.changing_services();
        for (name, chain) in differing {
            if !is_changing.contains(&name) {
                drift.add(Table::Nat, DriftKind::ServiceChain, &chain.name());
            }
            self.drifted.insert(name);
        }
    }

    /// Returns the Services whose change the next sync applies: their rules are expected to
    /// differ. Quarantined Services are excluded, as they are rendered as last applied.
    fn changing_services(&self) -> BTreeSet<ServiceName> {
        let dirty = self.tracker.dirty();
        let dirty = dirty.filter(|name| !self.quarantine.has(name));
        dirty.cloned().collect()
    }

    /// Compares a dispatch chain; reports whether the next sync repairs it.
    fn differs_in_dispatch(
        &mut self,
        (table, chain): &ChainKey,
        listing: Option<&str>,
        repair: DispatchRepair,
    ) -> bool {
        let Some(listing) = listing else {
            self.applied.rewrite_dispatch(*table, chain);
            return true;
        };
        let found = self
            .applied
            .verify_dispatch((*table, &**chain), listing, repair);
        let is_drift = !found.is_none();
        self.drifted.extend(found.services);
        is_drift
    }

    fn compare_all(&mut self, found: LiveRules, live: &LiveChains, drift: &mut Drift) {
        let Some(options) = self.written.clone() else {
            return;
        };
        let setting = RenderContext {
            options: &options,
            zone: self.history.zone.as_deref(),
        };
        let is_changing = self.changing_services();
        match render::verify_tables(
            found,
            live,
            &self.rendered_services(),
            setting,
            &is_changing,
        ) {
            Ok(adopted) => {
                // Stale chains of a changing Service are listed as chains of no Service.
                let is_drift = |name: &&ServiceName| {
                    !is_changing.contains(*name)
                        && (is_changing.is_empty() || !name.namespace().is_empty())
                };
                for name in adopted.differing.iter().filter(is_drift) {
                    if name.namespace().is_empty() {
                        // Chains and rules that belong to no Service.
                        drift.add_unnamed(Table::Nat, DriftKind::ServiceChain, 1);
                    } else {
                        drift.add_service(name.clone());
                    }
                }
                if adopted.lacks_node_ports_jump {
                    drift.add(Table::Nat, DriftKind::DispatchChain, "KUBE-SERVICES");
                }
                self.applied = adopted.applied;
                self.drifted.extend(adopted.differing);
            }
            Err(reason) => {
                let (table, kind) = match reason {
                    DeclineReason::SharedChains(table) => (table, DriftKind::DispatchChain),
                    _ => (Table::Nat, DriftKind::MostServiceChains),
                };
                drift.add_unnamed(table, kind, 1);
                drift.declined = Some(reason);
                self.force_full(FullReason::Flushed);
            }
        }
    }
}
