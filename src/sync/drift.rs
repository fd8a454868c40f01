//! Compares the rules that were read from the kernel with the applied state, and notes the repairs
//! for the next sync.
//!
//! Checks compare the guarded chains or the chains that another program changed; a verification
//! compares all rules. The comparison itself does no I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
#[cfg(feature = "testing")]
use std::time::Instant;

use super::decide::FullReason;
#[cfg(feature = "testing")]
use super::guarded_chain_monitor::GuardedChainMonitor;
use super::reading::Reading;
#[cfg(feature = "testing")]
use super::reading::{check_guarded_chains, read_chains, whole};
use super::syncer::{KernelState, Syncer};
use crate::host::{ChangeSource, Iptables, RunError};
use crate::model::ServiceName;
use crate::render::{self, LiveChains, Options};
#[cfg(feature = "testing")]
use crate::rules::ChainSet;
use crate::rules::Table;
use crate::ruleset::{Jump, holds_dispatch_rules};

/// Maximum number of names in one log line.
const MOST_NAMES: usize = 5;

/// Kind of a difference between the kernel and the applied state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DriftKind {
    /// A guarded chain or all jumps from built-in chains are missing. Counts once per table.
    FlushedTable,
    /// One jump from a built-in chain is missing.
    Jump,
    /// Chain whose rules depend on render options alone.
    FixedChain,
    /// Chain that many Services share, such as `KUBE-SERVICES`.
    DispatchChain,
    /// Chain of one Service.
    ServiceChain,
    /// Chains of Services that are not repaired one by one, because most of them differ. All rules
    /// are restored. Counts once.
    UnrepairableServiceChains,
}

impl DriftKind {
    /// Returns the value in logs and metric labels.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::FlushedTable => "flushed_table",
            Self::Jump => "jump",
            Self::FixedChain => "fixed_chain",
            Self::DispatchChain => "dispatch_chain",
            Self::ServiceChain => "service_chain",
            // Dashboards and alerts use this value.
            Self::UnrepairableServiceChains => "most_service_chains",
        }
    }
}

/// Differences that one comparison found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Drift {
    /// Number of differences of each kind.
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

    /// Adds a chain that differs.
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
        first_names(chains.map(|(table, chain)| format!("{table} {chain}")))
    }

    /// Returns the names of the first Services whose record differs from their rendered rules, for
    /// the log.
    pub(super) fn service_names(&self) -> String {
        first_names(self.unlike_rendered.iter().map(ToString::to_string))
    }
}

/// Returns the first names, and the number of the others.
fn first_names(names: impl ExactSizeIterator<Item = String>) -> String {
    let rest = names.len().saturating_sub(MOST_NAMES);
    let names = names.take(MOST_NAMES).collect::<Vec<_>>().join(", ");
    if rest == 0 {
        names
    } else {
        format!("{names} and {rest} more")
    }
}

/// Table and name under which repairs are counted. The name is that of a chain (for a jump, the
/// chain that holds it), or [`WHOLE_TABLE`].
pub(super) type RepairKey = (Table, Box<str>);

/// Name in a [`RepairKey`] for changed chains of a table that are not known by name.
pub(super) const WHOLE_TABLE: &str = "*";

/// Trigger of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComparisonTrigger {
    /// Another program changed rules.
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
    /// All triggers.
    pub(crate) const ALL: [Self; 6] = [
        Self::Change(ChangeSource::Events),
        Self::Change(ChangeSource::LostEvents),
        Self::Change(ChangeSource::TableSizes),
        Self::CheckDue,
        Self::VerificationDue,
        Self::FollowUp,
    ];

    /// Returns the value in logs and metric labels.
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
        if let Some((table, missing_jumps)) = &guarded.gone {
            drift.add_unnamed(*table, DriftKind::FlushedTable, 1);
            // A delayed sync reads the kernel: another program may have changed it again.
            let is_delayed = !drift.repair_keys.is_disjoint(contested);
            let outlines = if is_delayed {
                None
            } else {
                self.state_after_flush(*table, missing_jumps)
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
    /// because chains are missing as well, or because a table before nat was flushed, so that nat
    /// was not checked.
    fn state_after_flush(
        &self,
        table: Table,
        missing_jumps: &[&'static Jump],
    ) -> Option<LiveChains> {
        if missing_jumps.is_empty() || table != Table::Nat || !self.unreadable_tables.is_empty() {
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
            .chain(self.tracker.dirty_without_override())
            .chain(lost)
            .cloned()
            .collect();
        let services = self.tracker.rendered();
        let unlike = render::unlike_rendered(applied, &services, options, &due);
        for name in unlike {
            if let Some(applied) = self.kernel.record_mut() {
                applied.add_due(&name);
            }
            drift.add_unlike_rendered(name);
        }
    }
}

#[cfg(feature = "testing")]
impl<I: Iptables> Syncer<I> {
    /// Verifies all rules in the kernel after a sync that was applied, for tests. Returns what
    /// differs, or why nothing was compared.
    pub async fn verify(&mut self) -> String {
        // No call of the clock: with that of a test, each takes time.
        let (true, Some(now)) = (self.kernel.record().is_some(), self.history.last_full) else {
            return "the rules in the kernel are unknown".to_owned();
        };
        let (drift, failure) = self.read_and_compare(&whole(), &BTreeSet::new(), now).await;
        if let Some(failure) = failure {
            return failure.to_string();
        }
        if drift.is_empty() {
            return String::new();
        }
        format!(
            "{:?} {} {}",
            drift.counts,
            drift.chain_names(),
            drift.service_names()
        )
    }

    /// Reads and compares an extent without a task, and returns the failure to read, for tests.
    pub(super) async fn read_and_compare(
        &mut self,
        extent: &ChainSet,
        contested: &BTreeSet<RepairKey>,
        now: Instant,
    ) -> (Drift, Option<RunError>) {
        let KernelState::Known(applied, options) = &self.kernel else {
            return (Drift::default(), None);
        };
        let mut monitor = GuardedChainMonitor::new(None, now);
        let mut reading =
            check_guarded_chains(&mut monitor, &self.iptables, options, extent, now).await;
        read_chains(&mut reading, &self.iptables, extent, applied).await;
        let drift = self.find_drift(&mut reading, contested);
        (drift, reading.failure)
    }
}

#[cfg(test)]
#[path = "tests/drift.rs"]
mod tests;
