//! Knowledge of the rules in the kernel: its state, the readings, and the comparison of what was
//! read with the record, which notes the repairs for the next sync.
//!
//! A reading runs iptables binaries, which may hang for minutes, while the task receives changes of
//! the cluster; guarded chains are checked meanwhile. The comparison after it does no I/O. Checks
//! compare the guarded chains or the chains that another program changed; a verification compares
//! all rules.
//!
//! Tables hold third-party rules as well, some of which the iptables binaries cannot print. An
//! unprintable rule must neither stop a sync nor make a table look empty.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::schedule::{FullReason, RepairKey, WHOLE_TABLE};
use crate::host::{ChangeSource, ForeignChange, Iptables, ListedChains, ProgramExit, RunError};
use crate::model::ServiceName;
use crate::render::{
    self, AppliedState, JUMPS, LiveChains, LiveRules, Options, guarded_chains, is_service_chain,
};
use crate::rules::Table;
use crate::ruleset::{Jump, KUBE_FIREWALL, holds_dispatch_rules};
use crate::text::first_of;
use crate::tracker::Tracker;

/// Maximum number of names in one log line.
pub(super) const MOST_NAMES: usize = 5;

/// Number of processes that could not list all of their chains, in one reading of a table, after
/// which groups are not halved anymore: enough to find one chain among thousands.
const MOST_FAILED_LISTINGS: usize = 16;

/// Knowledge of the rules in the kernel.
pub(super) enum KernelState {
    /// The record of the rules, and the render options that they were made with.
    Known(Box<AppliedState>, Options),
    /// Nothing: the next sync adopts the rules or writes all.
    Unknown {
        reason: FullReason,
        /// Chains and jumps after a flush of the nat table, which spare the next full sync a read.
        outlines: Option<LiveChains>,
    },
}

impl KernelState {
    pub(super) const fn unknown(reason: FullReason) -> Self {
        Self::Unknown {
            reason,
            outlines: None,
        }
    }

    pub(super) fn record(&self) -> Option<&AppliedState> {
        match self {
            Self::Known(applied, _) => Some(applied),
            Self::Unknown { .. } => None,
        }
    }

    /// Returns the record, to be changed, if there is one.
    pub(super) fn record_mut(&mut self) -> Option<&mut AppliedState> {
        match self {
            Self::Known(applied, _) => Some(applied),
            Self::Unknown { .. } => None,
        }
    }

    /// Returns the render options of the rules, if these are known.
    pub(super) const fn options(&self) -> Option<&Options> {
        match self {
            Self::Known(_, options) => Some(options),
            Self::Unknown { .. } => None,
        }
    }

    /// Compares the rules that were read with the applied state, which describes the kernel
    /// afterwards, unless a full sync is forced; the next sync writes what differs from the
    /// rendered rules.
    ///
    /// Another program keeps changing what is in `contested`, so that its repair will be delayed.
    /// `unreadable` tables could not be read for the last full sync or adoption.
    pub(super) fn note_drift(
        &mut self,
        reading: &mut Reading,
        contested: &BTreeSet<RepairKey>,
        unreadable: &BTreeSet<Table>,
        tracker: &Tracker,
    ) -> Drift {
        let mut drift = Drift::default();
        let guarded = &reading.guarded;
        let Some(applied) = self.record_mut() else {
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
        if let Some((table, missing_jumps)) = &guarded.gone {
            drift.add_unnamed(*table, DriftKind::FlushedTable, 1);
            // A delayed sync reads the kernel: another program may have changed it again.
            let is_delayed = !drift.repair_keys.is_disjoint(contested);
            let outlines = if is_delayed || !unreadable.is_empty() {
                None
            } else {
                self.state_after_flush(*table, missing_jumps)
            };
            *self = Self::Unknown {
                reason: FullReason::Flushed,
                outlines,
            };
            return drift;
        }
        self.compare_rules(reading, tracker, &mut drift);
        drift
    }

    /// Returns the state of the kernel after a flush of the nat table: the chains of the applied
    /// state without the missing jumps. It spares the next full sync a read, which takes an eighth
    /// of the time from a flush to its repair. `None` if that sync has to read it, for example
    /// because chains are missing as well, or because a table before nat was flushed, so that nat
    /// was not checked.
    fn state_after_flush(
        &self,
        table: Table,
        missing_jumps: &[&'static Jump],
    ) -> Option<LiveChains> {
        if missing_jumps.is_empty() || table != Table::Nat {
            return None;
        }
        let applied = self.record()?;
        let (_, jumps_due) = applied.guarded_due();
        let missing: Vec<_> = missing_jumps.iter().chain(jumps_due).copied().collect();
        Some(applied.live_chains(&missing))
    }

    /// Compares chains of Services, dispatch chains and tree chains with the applied state.
    fn compare_rules(&mut self, reading: &mut Reading, tracker: &Tracker, drift: &mut Drift) {
        let Self::Known(applied, _) = self else {
            return;
        };
        let whole = reading.whole.take();
        let live = whole.as_ref();
        let rules = std::mem::take(&mut reading.rules);
        let differing = applied.observe(&rules, live.unwrap_or(&LiveChains::default()));
        drop(rules);
        if live.is_some() && applied.is_mostly_damaged() {
            drift.add_unnamed(Table::Nat, DriftKind::UnrepairableServiceChains, 1);
            *self = Self::unknown(FullReason::Flushed);
            return;
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
            self.compare_with_rendered(tracker, drift);
        }
    }

    /// Proves that partial restores have added up to a full one: compares the applied state with
    /// all Services as rendered, except those that the next sync writes.
    fn compare_with_rendered(&mut self, tracker: &Tracker, drift: &mut Drift) {
        let Self::Known(applied, options) = self else {
            return;
        };
        let due = applied
            .due()
            .chain(tracker.dirty_without_override())
            .chain(tracker.with_changed_losses())
            .cloned()
            .collect();
        let unlike = render::unlike_rendered(applied, &tracker.rendered(), options, &due);
        for name in unlike {
            applied.add_due(&name);
            drift.add_unlike_rendered(name);
        }
    }
}

enum_of_words! {
    all
    /// Kind of a difference between the kernel and the applied state.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum DriftKind {
        /// A guarded chain or all jumps from built-in chains are missing. Counts once per table.
        FlushedTable = "flushed_table",
        /// One jump from a built-in chain is missing.
        Jump = "jump",
        /// Chain whose rules depend on render options alone.
        FixedChain = "fixed_chain",
        /// Chain that many Services share, such as `KUBE-SERVICES`.
        DispatchChain = "dispatch_chain",
        ServiceChain = "service_chain",
        /// Chains of Services that are not repaired one by one, because most of them differ. All
        /// rules are restored. Counts once.
        // Dashboards and alerts use this value.
        UnrepairableServiceChains = "most_service_chains",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Drift {
    pub(super) counts: BTreeMap<(Table, DriftKind), usize>,
    /// Chains that differ and are known by name; for a jump, the chain that holds it.
    pub(super) chains: BTreeSet<(Table, Box<str>)>,
    /// Services whose record differs from their rendered rules. No other program is the cause.
    pub(super) unlike_rendered: Vec<ServiceName>,
    /// Keys under which the repairs of the other differences are counted.
    pub(super) repair_keys: BTreeSet<RepairKey>,
    /// Names of the programs that changed the rules, if the kernel reported them.
    pub(super) programs: BTreeSet<String>,
}

impl Drift {
    /// Reports whether the rules that were compared do not differ.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    pub(super) fn add(&mut self, table: Table, kind: DriftKind, chain: &str) {
        *self.counts.entry((table, kind)).or_default() += 1;
        self.chains.insert((table, chain.into()));
        self.repair_keys.insert((table, chain.into()));
    }

    /// Adds a Service whose record differs from its rendered rules. Counted under the nat table,
    /// which holds most of its rules.
    pub(super) fn add_unlike_rendered(&mut self, name: ServiceName) {
        let kind = (Table::Nat, DriftKind::ServiceChain);
        *self.counts.entry(kind).or_default() += 1;
        self.unlike_rendered.push(name);
    }

    /// Adds chains that are not known by name. Their repairs are counted per table.
    pub(super) fn add_unnamed(&mut self, table: Table, kind: DriftKind, chains: usize) {
        if chains > 0 {
            *self.counts.entry((table, kind)).or_default() += chains;
            self.repair_keys.insert((table, WHOLE_TABLE.into()));
        }
    }

    /// Returns the names of the first chains, for the log; empty if none is known by name.
    pub(super) fn chain_names(&self) -> String {
        let chains = self.chains.iter();
        let names = chains.map(|(table, chain)| format!("{table} {chain}"));
        first_of(names, MOST_NAMES)
    }

    /// Returns the names of the first Services whose record differs from their rendered rules, for
    /// the log.
    pub(super) fn service_names(&self) -> String {
        first_of(&self.unlike_rendered, MOST_NAMES)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComparisonTrigger {
    Change(ChangeSource),
    /// The interval of checks, which is the sync period, is over.
    CheckDue,
    /// The interval of verifications is over.
    VerificationDue,
    /// An earlier restore failed, or an earlier comparison found single rules missing or could not
    /// read everything.
    FollowUp,
}

impl ComparisonTrigger {
    pub(crate) const ALL: [Self; 6] = [
        Self::Change(ChangeSource::Events),
        Self::Change(ChangeSource::LostEvents),
        Self::Change(ChangeSource::TableSizes),
        Self::CheckDue,
        Self::VerificationDue,
        Self::FollowUp,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Change(source) => source.as_str(),
            Self::CheckDue => "period",
            Self::VerificationDue => "interval",
            Self::FollowUp => "follow_up",
        }
    }
}

/// Result of a comparison, for logs and metrics.
#[derive(Debug)]
pub(super) struct Compared<'a> {
    pub(super) trigger: ComparisonTrigger,
    /// All rules were compared, or could not be read for it.
    pub(super) is_verification: bool,
    pub(super) drift: &'a Drift,
    /// Failure of an iptables binary that reads rules.
    pub(super) failure: Option<&'a RunError>,
    /// Number of comparisons with a failed reading since the last one that read all rules.
    pub(super) failed_readings: u32,
    /// Delay of the repair, because another program keeps changing the same chains; zero: none.
    pub(super) repair_delay: Duration,
    /// Number of chains whose last repair was delayed.
    pub(super) delayed_chains: usize,
}

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
            live.has_kube_firewall = true;
        }
    }
    Ok(())
}

/// Rules that a comparison reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// All of filter and nat, in a verification. Chains that are not known by name are read
    /// together, so that one unknown chain makes it so.
    pub(super) is_whole: bool,
    /// Tables whose guarded chains are checked. They are listed together, so that one stands for
    /// all.
    pub(super) guarded: BTreeSet<Table>,
    /// Dispatch chains and tree chains.
    pub(super) dispatch: BTreeSet<(Table, Box<str>)>,
    pub(super) of_services: BTreeSet<Box<str>>,
}

impl Extent {
    /// Returns the extent of a verification: all rules.
    pub(super) fn whole() -> Self {
        Self {
            is_whole: true,
            ..Self::guarded(Table::ALL)
        }
    }

    pub(super) fn guarded(tables: impl IntoIterator<Item = Table>) -> Self {
        Self {
            guarded: tables.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Returns the kube-proxy chains that another program may have changed, without chains of
    /// Services that are not recorded.
    pub(super) fn touched(
        change: &ForeignChange,
        options: &Options,
        applied: &AppliedState,
    ) -> Self {
        let mut extent = Self::guarded(change.chains.whole_tables());
        extent.is_whole = change
            .chains
            .whole_tables()
            .any(|table| table != Table::Mangle);
        let mut of_services = BTreeSet::new();
        for (table, chain) in change.chains.named() {
            if guarded_chains(table, options).contains(&chain) {
                extent.guarded.insert(table);
            } else if holds_dispatch_rules(table, chain) {
                extent.dispatch.insert((table, chain.into()));
            } else if table == Table::Nat && is_service_chain(chain) {
                of_services.insert(chain.into());
            }
        }
        extent.of_services = applied.recorded_among(&of_services);
        extent
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.is_whole |= other.is_whole;
        self.guarded.extend(&other.guarded);
        self.dispatch.extend(other.dispatch.iter().cloned());
        self.of_services.extend(other.of_services.iter().cloned());
    }

    /// Returns the extent without chains of Services: if these cannot be read, they are rewritten
    /// instead of read again.
    fn without_service_chains(&self) -> Self {
        Self {
            of_services: BTreeSet::new(),
            ..self.clone()
        }
    }

    /// Returns a reading of single chains that has none of the chains of Services.
    fn missing_service_chains(&self) -> LiveRules {
        let mut rules = LiveRules::of_chains();
        for chain in &self.of_services {
            rules.note_missing(Table::Nat, chain);
        }
        rules
    }
}

/// Findings of one check of the guarded chains.
#[derive(Debug, Default)]
pub(super) struct GuardedChainFindings {
    /// Tables that could not be read; each is reported once until it is readable again.
    pub(super) newly_unreadable: Vec<(Table, RunError)>,
    pub(super) readable_again: Vec<Table>,
    /// Table that lacks a guarded chain or all jumps, and the jumps that it lacks if its chains are
    /// there, as after `iptables -F`. Tables after it were not checked.
    pub(super) gone: Option<(Table, Vec<&'static Jump>)>,
    /// Fixed chains with third-party rules that are due to be rewritten.
    pub(super) due_rewrites: Vec<DueRewrite>,
    /// Fixed chains that lack some of their rules.
    pub(super) incomplete_chains: Vec<(Table, &'static str)>,
    pub(super) missing_jumps: Vec<&'static Jump>,
}

impl GuardedChainFindings {
    /// Reports whether single rules or jumps are missing: rules of Services may be missing as well.
    pub(super) fn is_incomplete(&self) -> bool {
        !self.incomplete_chains.is_empty() || !self.missing_jumps.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DueRewrite {
    pub(super) chain: (Table, &'static str),
    /// Minimum time until the next rewrite.
    pub(super) wait: Duration,
    /// The chain was rewritten before, and third-party rules are back.
    pub(super) is_back: bool,
}

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
            rules: extent.missing_service_chains(),
            // No program failed: the reading would have delayed a due sync. Logs show it as a
            // timeout.
            failure: Some(RunError::Failed {
                program: "iptables-save".to_owned(),
                exit: ProgramExit::TimedOut(after),
                stderr: String::new(),
            }),
            to_reread: extent.without_service_chains(),
            ..Self::default()
        }
    }

    /// Returns the complete part of an interrupted reading: the check of the guarded chains.
    pub(super) fn interrupted(self) -> Self {
        Self {
            guarded: self.guarded,
            tables: self.tables,
            ..Self::default()
        }
    }

    /// Reports whether the comparison counts as a verification, if this was a reading of `extent`.
    /// A failed one does, so that its verification counts as failed. One that ended without a
    /// failure before it read whole tables, because of a missing chain or an interruption, does
    /// not.
    pub(super) fn is_verification(&self, extent: &Extent) -> bool {
        extent.is_whole && (self.failure.is_some() || self.whole.is_some())
    }

    /// Notes a failure. After a transient one the rules are read again later; another one, such as
    /// an unprintable rule, would only repeat.
    fn fail(&mut self, cause: RunError, extent: &Extent) {
        if cause.is_transient() {
            self.to_reread.merge(&extent.without_service_chains());
        }
        self.failure.get_or_insert(cause);
    }
}

/// Reads the other chains of an extent, unless the check found a flushed table.
pub(super) async fn read_chains(
    reading: &mut Reading,
    iptables: &impl Iptables,
    extent: &Extent,
    applied: &AppliedState,
) {
    if reading.guarded.gone.is_some() {
        return;
    }
    let mut dispatch_chains = extent.dispatch.clone();
    if extent.is_whole {
        read_whole_tables(reading, iptables, extent).await;
        if reading.whole.is_some() {
            return;
        }
        // Without the whole tables, dispatch chains are listed by name: an unprintable rule in
        // another chain does not affect that.
        dispatch_chains.extend(applied.dispatch_and_tree_chains());
    }
    reading.rules = extent.missing_service_chains();
    for table in Table::ALL {
        let chains = dispatch_chains.iter().filter(|(of, _)| *of == table);
        let chains = chains.map(|(_, name)| &**name).collect();
        if let Err(cause) = list_chains(&mut reading.rules, iptables, table, chains).await {
            reading.fail(cause, extent);
        }
    }
    let of_services = extent.of_services.iter().map(|chain| &**chain).collect();
    // They count as missing until they are listed; those that are not are rewritten.
    let _ = list_chains(&mut reading.rules, iptables, Table::Nat, of_services).await;
}

/// Reads all kube-proxy rules in the filter and nat tables, or notes why they cannot be read.
async fn read_whole_tables(reading: &mut Reading, iptables: &impl Iptables, extent: &Extent) {
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

/// Lists chains by name, in one process if none is missing or unprintable: otherwise by halves, so
/// that one chain does not hide the others. With many such chains, groups remain of which nothing
/// is noted: a later reading lists them, after the repair of those that were found.
///
/// # Errors
///
/// The iptables binary fails in another way; the chains that are left are unknown.
async fn list_chains(
    rules: &mut LiveRules,
    iptables: &impl Iptables,
    table: Table,
    chains: Vec<&str>,
) -> Result<(), RunError> {
    let mut failed = 0;
    let mut groups = vec![chains];
    while let Some(mut group) = groups.pop() {
        if group.is_empty() {
            continue;
        }
        match iptables.list(table, &group).await? {
            ListedChains::Whole(text) => rules.read_listing(table, &text),
            ListedChains::Missing | ListedChains::Truncated { .. } => {
                failed += 1;
                if let [chain] = *group {
                    rules.note_missing(table, chain);
                } else if failed < MOST_FAILED_LISTINGS {
                    let rest = group.split_off(group.len() / 2);
                    groups.extend([rest, group]);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "tests/kernel.rs"]
mod tests;
