//! Extent and result of a comparison of the kernel with the applied state.
//!
//! Checks compare the guarded chains or the chains that another program changed; a verification
//! compares all rules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::host::{ChangeSource, ForeignChange, RunError, Touched};
use crate::model::ServiceName;
use crate::render::{AppliedState, Options, guarded_chains, is_service_chain};
use crate::rules::Table;
use crate::ruleset::holds_dispatch_rules;

/// Maximum number of names in one log line.
const MOST_NAMES: usize = 5;

/// Name in a [`RepairKey`] for changed chains of a table that are not known by name.
const WHOLE_TABLE: &str = "*";

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
    /// Services whose rules differ, if it is not known in which chains.
    pub(super) services: BTreeSet<ServiceName>,
    /// Keys under which the repairs of these differences are counted.
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

    /// Adds a Service of which a verification found rules that differ. Counted under the nat table,
    /// which holds most of them.
    pub(super) fn add_service(&mut self, name: ServiceName) {
        let kind = (Table::Nat, DriftKind::ServiceChain);
        *self.counts.entry(kind).or_default() += 1;
        self.repair_keys
            .insert((Table::Nat, name.to_string().into()));
        self.services.insert(name);
    }

    /// Adds chains that are not known by name. Their repairs are counted per table.
    pub(super) fn add_unnamed(&mut self, table: Table, kind: DriftKind, chains: usize) {
        if chains > 0 {
            *self.counts.entry((table, kind)).or_default() += chains;
            self.repair_keys.insert((table, WHOLE_TABLE.into()));
        }
    }

    /// Reports whether any chain or Service is known by name.
    pub(super) fn has_names(&self) -> bool {
        !self.chains.is_empty() || !self.services.is_empty()
    }

    /// Returns the names of the first chains and Services, for the log.
    pub(super) fn names(&self) -> String {
        let chains = self.chains.iter();
        let chains = chains.map(|(table, chain)| format!("{table} {chain}"));
        let services = self.services.iter();
        let services = services.map(|name| format!("those of Service {name}"));
        let names: Vec<String> = chains.chain(services).take(MOST_NAMES).collect();
        let rest = (self.chains.len() + self.services.len()).saturating_sub(names.len());
        let names = names.join(", ");
        if rest == 0 {
            names
        } else {
            format!("{names} and {rest} more")
        }
    }
}

/// Table and name under which repairs are counted. The name is that of a chain (for a jump, the
/// chain that holds it), of a Service whose chains are not known by name, or [`WHOLE_TABLE`].
pub(super) type RepairKey = (Table, Box<str>);

/// Rules that a comparison reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Tables whose guarded chains are compared.
    pub(super) tables: BTreeSet<Table>,
    /// Dispatch chains that are compared.
    pub(super) dispatch_chains: BTreeSet<(Table, Box<str>)>,
    /// Chains of Services that are compared.
    pub(super) service_chains: BTreeSet<Box<str>>,
    /// Depth: only the chains above, or all kube-proxy rules.
    pub(super) depth: ComparisonDepth,
}

/// Depth of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ComparisonDepth {
    /// Only chains: those of the [`Extent`], and the guarded ones of its tables.
    #[default]
    Chains,
    /// Every kube-proxy rule in the filter and nat tables.
    Whole,
}

impl Extent {
    /// Returns the extent of a verification: all rules.
    pub(super) fn whole() -> Self {
        Self {
            tables: Table::ALL.into(),
            depth: ComparisonDepth::Whole,
            ..Self::default()
        }
    }

    /// Returns the kube-proxy chains that another program may have changed.
    pub(super) fn touched(change: &ForeignChange, options: &Options) -> Self {
        let mut extent = Self::default();
        for (table, touched) in &change.tables {
            match touched {
                Touched::Unknown => {
                    extent.tables.insert(*table);
                    if *table != Table::Mangle {
                        extent.depth = ComparisonDepth::Whole;
                    }
                }
                Touched::Chains(chains) => {
                    for chain in chains {
                        extent.add(*table, chain, options);
                    }
                }
            }
        }
        extent
    }

    /// Returns the kube-proxy chains that another program may have changed, without chains of
    /// Services that are not in the applied state.
    pub(super) fn touched_and_recorded(
        change: &ForeignChange,
        options: &Options,
        applied: &AppliedState,
    ) -> Self {
        let mut extent = Self::touched(change, options);
        extent.service_chains = applied.recorded_among(&extent.service_chains);
        extent
    }

    fn add(&mut self, table: Table, chain: &str, options: &Options) {
        if guarded_chains(table, options).contains(&chain) {
            self.tables.insert(table);
        } else if holds_dispatch_rules(table, chain) {
            self.dispatch_chains.insert((table, chain.into()));
        } else if table == Table::Nat && is_service_chain(chain) {
            self.service_chains.insert(chain.into());
        }
    }

    /// Adds all of another extent.
    pub(super) fn merge(&mut self, other: Self) {
        self.tables.extend(other.tables);
        self.dispatch_chains.extend(other.dispatch_chains);
        self.service_chains.extend(other.service_chains);
        if other.depth == ComparisonDepth::Whole {
            self.depth = ComparisonDepth::Whole;
        }
    }

    /// Returns this extent without chains of Services: if these cannot be read, they are rewritten
    /// instead of read again.
    pub(super) fn to_read_again(&self) -> Self {
        Self {
            service_chains: BTreeSet::new(),
            ..self.clone()
        }
    }

    /// Reports whether there is nothing to compare.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

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
    pub(super) depth: ComparisonDepth,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_the_first_chains_and_counts_the_rest() {
        let mut drift = Drift::default();
        assert!(drift.is_empty());
        drift.add_unnamed(Table::Nat, DriftKind::ServiceChain, 0);
        assert!(drift.is_empty());
        for chain in ["A", "B", "C", "D", "E", "F", "G"] {
            drift.add(Table::Nat, DriftKind::ServiceChain, chain);
        }
        assert_eq!(
            drift.names(),
            "nat A, nat B, nat C, nat D, nat E and 2 more"
        );
        let counted = drift.counts.get(&(Table::Nat, DriftKind::ServiceChain));
        assert_eq!(counted, Some(&7));
    }

    #[test]
    fn services_are_named_and_counted_one_by_one() {
        let mut drift = Drift::default();
        assert!(!drift.has_names());
        drift.add_service(ServiceName::new("shop", "web"));
        drift.add_service(ServiceName::new("shop", "dns"));
        drift.add_unnamed(Table::Nat, DriftKind::ServiceChain, 1);
        assert_eq!(
            drift.names(),
            "those of Service shop/dns, those of Service shop/web"
        );
        let counted = drift.counts.get(&(Table::Nat, DriftKind::ServiceChain));
        assert_eq!(counted, Some(&3));
        let keys: Vec<&str> = drift.repair_keys.iter().map(|(_, key)| &**key).collect();
        assert_eq!(keys, ["*", "shop/dns", "shop/web"]);
    }
}
