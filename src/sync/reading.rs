//! Reads the rules in the kernel: whole tables, or the chains of a comparison.
//!
//! Reading is separate from comparing, because the iptables binaries may hang for minutes, and the
//! task has to receive changes of the cluster meanwhile. Guarded chains are checked while they are
//! read.
//!
//! Tables hold third-party rules as well, some of which the iptables binaries cannot print. An
//! unprintable rule must neither stop a sync nor make a table look empty.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::guarded_chain_monitor::{GuardedChainFindings, GuardedChainMonitor};
use crate::host::{ForeignChange, Iptables, ListedChains, ProgramExit, RunError};
use crate::render::{
    AppliedState, JUMPS, LiveChains, LiveRules, Options, guarded_chains, is_service_chain,
};
use crate::rules::{ChainSet, Table};
use crate::ruleset::{KUBE_FIREWALL, KUBE_PROXY_CANARY, holds_dispatch_rules};

/// Maximum number of chains that are listed one by one, each by a process of its own, after one
/// process could not list all of them. More are rewritten without being listed.
const MOST_SINGLE: usize = 16;

/// Reaction to a [transient](RunError::is_transient) failure to read, for example while another
/// program holds the xtables lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnTransientFailure {
    /// The read fails, and the sync is retried: most causes are temporary.
    Fail,
    /// The table counts as unreadable, and the read goes on. A full restore then writes the table
    /// without having read it.
    Unreadable,
}

impl OnTransientFailure {
    /// Failures in a row after which a cause counts as permanent: the retry delays usually add up
    /// to seven seconds by then, longer than other programs hold the lock. Changes of the cluster
    /// may shorten them to three seconds.
    const MOST_FAILURES: u32 = 3;

    /// Returns the reaction after this many failures in a row.
    pub(super) const fn after(failures: u32) -> Self {
        if failures < Self::MOST_FAILURES {
            Self::Fail
        } else {
            Self::Unreadable
        }
    }
}

/// Rules in the kernel.
#[derive(Debug, Default)]
pub(super) struct KernelRules {
    /// Chains and jumps.
    pub(super) live: LiveChains,
    /// All kube-proxy rules, if requested and if all tables could be read.
    pub(super) found: Option<LiveRules>,
    /// Tables that could not be read, with the causes.
    pub(super) unreadable: Vec<(Table, RunError)>,
}

/// Reads the filter and nat tables: chains and jumps, and their rules into `found`, if requested.
/// In a table that cannot be read, each jump is queried, because a jump must not be written twice;
/// stale chains are not found, so they stay.
///
/// # Errors
///
/// An iptables binary failed in a transient way, or a query of a jump failed. A retry may succeed.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`, "Failed to execute iptables-save:
/// stale chains will not be deleted" (v1.37)
pub(super) async fn read_rules(
    iptables: &impl Iptables,
    mut found: Option<LiveRules>,
    on_transient: OnTransientFailure,
) -> Result<KernelRules, RunError> {
    let mut rules = KernelRules::default();
    for table in [Table::Filter, Table::Nat] {
        let mut live = rules.live.clone();
        let mut read = |line: &str| {
            live.read_line(table, line);
            if let Some(found) = &mut found {
                found.read_line(table, line);
            }
        };
        match iptables.save(table, &mut read).await {
            Ok(()) => {
                live.note_read(table);
                rules.live = live;
            }
            Err(error) if error.is_transient() && on_transient == OnTransientFailure::Fail => {
                return Err(error);
            }
            Err(error) => {
                found = None;
                query_jumps(iptables, table, &mut rules.live).await?;
                rules.unreadable.push((table, error));
            }
        }
    }
    rules.found = found;
    Ok(rules)
}

/// Queries each jump of a table, and `KUBE-FIREWALL`, which kubelet may have made.
async fn query_jumps(
    iptables: &impl Iptables,
    table: Table,
    live: &mut LiveChains,
) -> Result<(), RunError> {
    for jump in JUMPS.iter().filter(|jump| jump.table == table) {
        if iptables.has(table, jump.from, jump.rule).await? {
            live.note_jump(jump);
        }
    }
    if table == Table::Filter {
        let listed = iptables.list(table, &[KUBE_FIREWALL]).await?;
        if !matches!(listed, ListedChains::Missing) {
            live.note_kube_firewall();
        }
    }
    Ok(())
}

/// Returns the extent of a verification: all rules.
pub(super) fn whole() -> ChainSet {
    ChainSet::of_tables(Table::ALL)
}

/// Returns an extent that has all guarded chains of these tables. They are listed together, so that
/// one stands for all.
pub(super) fn guarded(tables: impl IntoIterator<Item = Table>) -> ChainSet {
    let chains = tables.into_iter().map(|table| (table, KUBE_PROXY_CANARY));
    chains.collect()
}

/// Returns the kube-proxy chains that another program may have changed, without chains of Services
/// that are not recorded.
pub(super) fn touched(
    change: &ForeignChange,
    options: &Options,
    applied: &AppliedState,
) -> ChainSet {
    let mut extent = ChainSet::of_tables(change.chains.tables());
    let of_services: BTreeSet<_> = service_chains(&change.chains).map(Box::from).collect();
    for (table, chain) in change.chains.named() {
        if guarded_chains(table, options).contains(&chain) || holds_dispatch_rules(table, chain) {
            extent.add(table, chain);
        }
    }
    for chain in applied.recorded_among(&of_services) {
        extent.add(Table::Nat, &chain);
    }
    extent
}

/// Reports whether an extent has the whole filter or nat table. Both are read then: chains that are
/// not known by name are read together.
pub(super) fn is_whole(extent: &ChainSet) -> bool {
    extent.has_table(Table::Filter) || extent.has_table(Table::Nat)
}

/// Returns the tables of an extent whose guarded chains are checked.
fn guarded_tables(extent: &ChainSet, options: &Options) -> BTreeSet<Table> {
    let named = extent.named();
    let named = named.filter(|(table, chain)| guarded_chains(*table, options).contains(chain));
    extent
        .tables()
        .chain(named.map(|(table, _)| table))
        .collect()
}

fn service_chains(extent: &ChainSet) -> impl Iterator<Item = &str> {
    let named = extent.named();
    let named = named.filter(|(table, chain)| *table == Table::Nat && is_service_chain(chain));
    named.map(|(_, chain)| chain)
}

/// Returns an extent without chains of Services: if these cannot be read, they are rewritten
/// instead of read again.
fn without_service_chains(extent: &ChainSet) -> ChainSet {
    let mut rest = ChainSet::of_tables(extent.tables());
    for (table, chain) in extent.named() {
        if table != Table::Nat || !is_service_chain(chain) {
            rest.add(table, chain);
        }
    }
    rest
}

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
    pub(super) to_reread: ChainSet,
    /// A change by another program interrupted the reading: only the guarded chains were
    /// checked.
    pub(super) is_interrupted: bool,
}

impl Reading {
    /// Returns the complete part of a reading that was abandoned after this time: the check of the
    /// guarded chains, or what `guarded` has of one that did not end.
    pub(super) fn abandoned(
        self,
        extent: &ChainSet,
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
            to_reread: without_service_chains(extent),
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

    /// Reports whether the comparison counts as a verification, if this was a reading of `extent`.
    /// A failed one does, so that its verification counts as failed. One that ended without a
    /// failure before it read whole tables, because of a missing chain or an interruption, does
    /// not.
    pub(super) fn is_verification(&self, extent: &ChainSet) -> bool {
        is_whole(extent) && (self.failure.is_some() || self.whole.is_some())
    }

    /// Notes a failure. After a transient one the rules are read again later; another one, such as
    /// an unprintable rule, would only repeat.
    fn fail(&mut self, cause: RunError, extent: &ChainSet) {
        if cause.is_transient() {
            self.to_reread.merge(&without_service_chains(extent));
        }
        self.failure.get_or_insert(cause);
    }
}

/// Checks the guarded chains of an extent.
pub(super) async fn check_guarded_chains(
    monitor: &mut GuardedChainMonitor,
    iptables: &impl Iptables,
    options: &Options,
    extent: &ChainSet,
    now: Instant,
) -> Reading {
    let tables = guarded_tables(extent, options);
    let guarded = monitor.check(iptables, options, &tables, now).await;
    let unreadable = monitor.unreadable();
    Reading {
        tables: tables.difference(unreadable).copied().collect(),
        guarded,
        ..Reading::default()
    }
}

/// Reads the other chains of an extent, unless the check found a flushed table.
pub(super) async fn read_chains(
    reading: &mut Reading,
    iptables: &impl Iptables,
    extent: &ChainSet,
    applied: &AppliedState,
) {
    if reading.guarded.gone.is_some() {
        return;
    }
    let of_services: BTreeSet<_> = service_chains(extent).collect();
    let dispatch_chains = extent.named();
    let dispatch_chains =
        dispatch_chains.filter(|(table, name)| holds_dispatch_rules(*table, name));
    let mut dispatch_chains: BTreeSet<(Table, Box<str>)> = dispatch_chains
        .map(|(table, name)| (table, name.into()))
        .collect();
    if is_whole(extent) {
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
    list_service_chains(&mut reading.rules, iptables, &of_services).await;
}

/// Returns a reading of single chains that has none of the extent's chains of Services.
fn missing_service_chains(extent: &ChainSet) -> LiveRules {
    let mut rules = LiveRules::default();
    for chain in service_chains(extent) {
        rules.note_missing(Table::Nat, chain);
    }
    rules
}

/// Reads all kube-proxy rules in the filter and nat tables, or notes why they cannot be read.
async fn read_whole_tables(reading: &mut Reading, iptables: &impl Iptables, extent: &ChainSet) {
    let on_transient = OnTransientFailure::Unreadable;
    match read_rules(iptables, Some(LiveRules::of_tables()), on_transient).await {
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
    chains: &BTreeSet<&str>,
) {
    let chains: Vec<&str> = chains.iter().copied().collect();
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
