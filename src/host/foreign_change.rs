//! Changes of iptables' tables by other programs, as far as they are known.

use std::collections::{BTreeMap, BTreeSet};

use crate::rules::Table;

/// Chains of one table that are listed by name. A flush of a table with thousands of Services
/// touches tens of thousands: from some number on, reading the table once is cheaper.
const MOST_CHAINS: usize = 1000;

/// Programs that are listed by name.
const MOST_PROGRAMS: usize = 8;

/// Changes by other programs since the last report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignChange {
    /// The tables they touched.
    pub tables: BTreeMap<Table, Touched>,
    /// Names of the programs, where the kernel reports them.
    pub programs: BTreeSet<String>,
    /// Source of the report.
    pub source: ChangeSource,
}

/// Extent of a change in one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touched {
    /// Rules of these chains, or the chains themselves, and nothing else.
    Chains(BTreeSet<Box<str>>),
    /// Any chain.
    Unknown,
}

/// Source of the report of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeSource {
    /// The kernel reported every transaction.
    #[default]
    Events,
    /// Reports of the kernel were lost.
    LostEvents,
    /// The number of rules of a table, or their size, is another one.
    Counters,
}

impl ForeignChange {
    /// A change of unknown extent in some tables.
    pub fn unknown(source: ChangeSource, tables: impl IntoIterator<Item = Table>) -> Self {
        let tables = tables.into_iter().map(|table| (table, Touched::Unknown));
        Self {
            tables: tables.collect(),
            programs: BTreeSet::new(),
            source,
        }
    }

    /// Reports whether no table was touched.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Reports whether every chain is known that was touched.
    pub fn is_exact(&self) -> bool {
        let mut touched = self.tables.values();
        touched.all(|touched| matches!(touched, Touched::Chains(_)))
    }

    /// Adds a chain.
    pub fn touch(&mut self, table: Table, chain: &str) {
        let nothing = Touched::Chains(BTreeSet::new());
        let touched = self.tables.entry(table).or_insert(nothing);
        if let Touched::Chains(chains) = touched
            && !chains.contains(chain)
        {
            if chains.len() >= MOST_CHAINS {
                *touched = Touched::Unknown;
            } else {
                chains.insert(chain.into());
            }
        }
    }

    /// Adds a whole table.
    pub fn touch_table(&mut self, table: Table) {
        self.tables.insert(table, Touched::Unknown);
    }

    /// Adds the name of a program.
    pub fn by(&mut self, program: &str) {
        if !program.is_empty() && self.programs.len() < MOST_PROGRAMS {
            self.programs.insert(program.to_owned());
        }
    }

    /// Adds all of another change.
    pub fn merge(&mut self, other: Self) {
        for (table, touched) in other.tables {
            match touched {
                Touched::Unknown => self.touch_table(table),
                Touched::Chains(chains) => {
                    for chain in &chains {
                        self.touch(table, chain);
                    }
                }
            }
        }
        for program in &other.programs {
            self.by(program);
        }
        self.source = self.source.max(other.source);
    }
}

impl ChangeSource {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Events, Self::LostEvents, Self::Counters];

    /// As logs and metric labels have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Events => "event",
            Self::LostEvents => "lost_events",
            Self::Counters => "table_size",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_of_many_chains_has_an_unknown_extent() {
        let mut change = ForeignChange::default();
        for number in 0..MOST_CHAINS {
            change.touch(Table::Nat, &format!("KUBE-SEP-{number}"));
        }
        assert!(matches!(
            change.tables.get(&Table::Nat),
            Some(Touched::Chains(chains)) if chains.len() == MOST_CHAINS
        ));
        change.touch(Table::Nat, "KUBE-SEP-0");
        assert_ne!(change.tables.get(&Table::Nat), Some(&Touched::Unknown));
        assert!(change.is_exact());
        change.touch(Table::Nat, "KUBE-SERVICES");
        assert_eq!(change.tables.get(&Table::Nat), Some(&Touched::Unknown));
        assert!(!change.is_exact());
        change.touch(Table::Nat, "KUBE-NODEPORTS");
        assert_eq!(change.tables.get(&Table::Nat), Some(&Touched::Unknown));
    }

    #[test]
    fn merged_changes_keep_the_larger_extent_and_the_less_certain_source() {
        let mut change = ForeignChange::default();
        change.touch(Table::Filter, "KUBE-FORWARD");
        change.by("nft");
        let lost = ForeignChange::unknown(ChangeSource::LostEvents, [Table::Nat]);
        change.merge(lost);
        assert_eq!(change.source, ChangeSource::LostEvents);
        assert_eq!(change.tables.get(&Table::Nat), Some(&Touched::Unknown));
        assert_eq!(change.programs.len(), 1);
        assert!(!change.is_empty());
        assert!(ForeignChange::default().is_empty());
    }
}
