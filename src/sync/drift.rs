//! Differences between the rules that were applied and those in the kernel.

use std::collections::{BTreeMap, BTreeSet};

use super::backoff::Key;
use crate::model::ServiceName;
use crate::render::DeclineReason;
use crate::rules::Table;

/// Chains that are listed by name, for the log.
const MOST_NAMES: usize = 5;

/// Stands for all chains of a table where repairs of the same chains are counted.
const WHOLE_TABLE: &str = "*";

/// Place of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriftKind {
    /// Chains of ours or all of our jumps are missing.
    FlushedTable,
    /// A jump from a built-in chain is missing.
    Jump,
    /// A chain whose rules depend on options alone.
    FixedChain,
    /// A chain to which every Service adds rules.
    DispatchChain,
    /// A chain of one Service.
    ServiceChain,
}

impl DriftKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::FlushedTable,
        Self::Jump,
        Self::FixedChain,
        Self::DispatchChain,
        Self::ServiceChain,
    ];

    /// As logs and metric labels have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FlushedTable => "flushed_table",
            Self::Jump => "jump",
            Self::FixedChain => "fixed_chain",
            Self::DispatchChain => "dispatch_chain",
            Self::ServiceChain => "service_chain",
        }
    }
}

/// All differences that one verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Drift {
    pub(super) counts: BTreeMap<(Table, DriftKind), usize>,
    /// Chains by name, where names are known; of a jump, the chain that it stands in.
    pub(super) chains: BTreeSet<(Table, Box<str>)>,
    /// Services some of whose rules in the nat table differ, where only that is known.
    pub(super) services: BTreeSet<ServiceName>,
    /// Chains, Services and whole tables whose repairs are counted.
    pub(super) keys: BTreeSet<Key>,
    /// Reason to restore everything, although the tables were not flushed.
    pub(super) declined: Option<DeclineReason>,
    /// Names of the programs that changed the rules, as far as the kernel reports them.
    pub(super) programs: BTreeSet<String>,
}

impl Drift {
    /// Reports whether the kernel holds what was applied.
    pub(super) fn is_none(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds a chain that differs.
    pub(super) fn add(&mut self, table: Table, kind: DriftKind, chain: &str) {
        *self.counts.entry((table, kind)).or_default() += 1;
        self.chains.insert((table, chain.into()));
        self.keys.insert((table, chain.into()));
    }

    /// Adds a Service with rules in the nat table that differ.
    pub(super) fn add_service(&mut self, name: ServiceName) {
        let kind = (Table::Nat, DriftKind::ServiceChain);
        *self.counts.entry(kind).or_default() += 1;
        self.keys.insert((Table::Nat, name.to_string().into()));
        self.services.insert(name);
    }

    /// Adds chains that are not known by name. Their repairs are counted by table.
    pub(super) fn add_unnamed(&mut self, table: Table, kind: DriftKind, chains: usize) {
        if chains > 0 {
            *self.counts.entry((table, kind)).or_default() += chains;
            self.keys.insert((table, WHOLE_TABLE.into()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_the_first_chains_and_counts_the_rest() {
        let mut drift = Drift::default();
        assert!(drift.is_none());
        drift.add_unnamed(Table::Nat, DriftKind::ServiceChain, 0);
        assert!(drift.is_none());
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
        let keys: Vec<&str> = drift.keys.iter().map(|(_, key)| &**key).collect();
        assert_eq!(keys, ["*", "shop/dns", "shop/web"]);
    }
}
