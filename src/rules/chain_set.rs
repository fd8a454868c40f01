//! Set of chains: some of a table, or all of it.

use std::collections::{BTreeMap, BTreeSet};

use super::table::Table;

/// Chains of the tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChainSet {
    /// Tables of which all chains are in the set.
    tables: BTreeSet<Table>,
    /// Names of chains of the other tables.
    named: BTreeMap<Table, BTreeSet<Box<str>>>,
}

impl ChainSet {
    /// Returns all chains of these tables.
    pub fn of_tables(tables: impl IntoIterator<Item = Table>) -> Self {
        Self {
            tables: tables.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Adds a chain.
    pub fn add(&mut self, table: Table, chain: &str) {
        if !self.has_table(table) {
            self.named.entry(table).or_default().insert(chain.into());
        }
    }

    /// Adds all chains of a table.
    pub fn add_table(&mut self, table: Table) {
        self.named.remove(&table);
        self.tables.insert(table);
    }

    /// Adds all of another set.
    pub fn merge(&mut self, other: &Self) {
        for table in &other.tables {
            self.add_table(*table);
        }
        for (table, chain) in other.named() {
            self.add(table, chain);
        }
    }

    /// Reports whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.named.is_empty()
    }

    /// Reports whether all chains of a table are in the set.
    pub fn has_table(&self, table: Table) -> bool {
        self.tables.contains(&table)
    }

    /// Returns the tables of which all chains are in the set.
    pub fn tables(&self) -> impl Iterator<Item = Table> {
        self.tables.iter().copied()
    }

    /// Returns the chains that are in the set by name, sorted.
    pub fn named(&self) -> impl Iterator<Item = (Table, &str)> {
        let named = self.named.iter();
        named.flat_map(|(table, chains)| chains.iter().map(|chain| (*table, &**chain)))
    }

    /// Returns the number of chains of a table that are in the set by name.
    pub fn count_named(&self, table: Table) -> usize {
        self.named.get(&table).map_or(0, BTreeSet::len)
    }
}

impl<'c> FromIterator<(Table, &'c str)> for ChainSet {
    fn from_iter<T: IntoIterator<Item = (Table, &'c str)>>(chains: T) -> Self {
        let mut set = Self::default();
        for (table, chain) in chains {
            set.add(table, chain);
        }
        set
    }
}
