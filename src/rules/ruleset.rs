//! Holds the rules of one family, and counts those of unknown tables. Every known table has its
//! built-in chains.

use std::collections::BTreeMap;

use super::chain::{Chain, Chains};
use super::error::ParseError;
use super::grammar::Rule;
use super::reader::RulesReader;
use super::table::{Table, TracedTable};

#[cfg(feature = "testing")]
#[path = "tests/transaction.rs"]
mod transaction;

/// Rules of one IP family, as in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    tables: BTreeMap<TracedTable, Chains>,
    /// Number of rules of each unknown table.
    unknown: BTreeMap<Box<str>, usize>,
}

impl Default for RuleSet {
    /// Returns the rule set of a node without rules.
    fn default() -> Self {
        let tables = TracedTable::ALL.into_iter();
        Self {
            tables: tables.map(|table| (table, Chains::new(table))).collect(),
            unknown: BTreeMap::new(),
        }
    }
}

impl RuleSet {
    /// Parses the output of `iptables-save`. A rule that cannot be parsed is kept as text, because
    /// the kernel has it.
    pub fn parse(save_text: &str) -> Result<Self, ParseError> {
        let mut rule_set = Self::default();
        rule_set.add_tables(save_text)?;
        Ok(rule_set)
    }

    /// Adds the tables of another output of `iptables-save`, or a payload that was restored.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse); the lines before the rejected one are added.
    pub fn add_tables(&mut self, save_text: &str) -> Result<(), ParseError> {
        RulesReader::new(&mut self.tables, &mut self.unknown).read(save_text)
    }

    /// Parses the output of `iptables-save` as its pieces arrive, each of whole lines.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse); no more pieces are taken then.
    pub(crate) fn parse_pieces<P: AsRef<str>>(
        pieces: impl Iterator<Item = P> + Send,
    ) -> Result<Self, ParseError> {
        let mut rule_set = Self::default();
        RulesReader::new(&mut rule_set.tables, &mut rule_set.unknown).read_pieces(pieces)?;
        Ok(rule_set)
    }

    /// Removes all rules and chains of a table, as if it had never been used.
    pub fn clear(&mut self, table: Table) {
        let table = table.into();
        self.tables.insert(table, Chains::new(table));
    }

    /// Replaces each jump to a selected chain by the rules of that chain, and removes the chain. Of
    /// several jumps to it, the first in the order of names is replaced; the others lead nowhere.
    pub fn inline_chains(&mut self, is_selected: impl Fn(Table, &str) -> bool) {
        for (table, chains) in &mut self.tables {
            if let Some(table) = table.of_proxy() {
                chains.inline(&|name| is_selected(table, name));
            }
        }
    }

    pub fn chain(&self, table: Table, name: &str) -> Option<&Chain> {
        self.tables.get(&table.into())?.by_name.get(name)
    }

    /// Returns the rules of a chain; none if it does not exist.
    pub fn rules_of(&self, table: Table, chain: &str) -> &[Rule] {
        self.chain(table, chain).map_or(&[], |chain| &chain.rules)
    }

    /// Returns the chain and its name, both with the lifetime of the rule set.
    pub(super) fn find(&self, table: TracedTable, name: &str) -> Option<(&str, &Chain)> {
        let found = self.tables.get(&table)?.by_name.get_key_value(name);
        found.map(|(name, chain)| (name.as_ref(), chain))
    }

    /// Returns all chains of a table, sorted by name.
    pub fn chains(&self, table: Table) -> impl Iterator<Item = (&str, &Chain)> {
        let chains = self.tables.get(&table.into()).into_iter();
        chains.flat_map(Chains::sorted)
    }

    /// Returns all chains of a table, in any order: sorting them takes longer than most uses.
    pub(crate) fn unsorted_chains(&self, table: Table) -> impl Iterator<Item = (&str, &Chain)> {
        let chains = self.tables.get(&table.into()).into_iter();
        chains
            .flat_map(|chains| &chains.by_name)
            .map(|(name, chain)| (name.as_ref(), chain))
    }

    /// Reports whether a rule of the table jumps or goes to the chain.
    pub fn is_referenced(&self, table: Table, chain: &str) -> bool {
        let mut rules = self
            .unsorted_chains(table)
            .flat_map(|(_, chain)| &chain.rules);
        rules.any(|rule| rule.target_chain() == Some(chain))
    }

    /// Returns the rules of the proxy's tables that could not be parsed, with their chains, sorted
    /// by these.
    pub fn unparsed_rules(&self) -> impl Iterator<Item = (Table, &str, &Rule)> {
        let of_table = |table| {
            let chains = self.unsorted_chains(table);
            let rules = chains.flat_map(|(name, chain)| {
                let unparsed = chain.rules.iter().filter(|rule| rule.is_unparsed());
                unparsed.map(move |rule| (name, rule))
            });
            let mut rules: Vec<_> = rules.collect();
            // Rules of one chain stay in their order.
            rules.sort_by_key(|(name, _)| *name);
            let rules = rules.into_iter();
            rules.map(move |(name, rule)| (table, name, rule))
        };
        Table::ALL.into_iter().flat_map(of_table)
    }

    /// Returns the unknown tables of the parsed text, with their numbers of rules.
    pub fn unknown_tables(&self) -> impl Iterator<Item = (&str, usize)> {
        self.unknown.iter().map(|(name, rules)| (&**name, *rules))
    }

    /// Returns the number of rules in tables that the proxy does not use.
    pub fn rule_count_elsewhere(&self) -> usize {
        let others = self.tables.iter();
        let others = others.filter(|(table, _)| table.of_proxy().is_none());
        let known: usize = others.map(|(_, chains)| chains.rule_count()).sum();
        known + self.unknown.values().sum::<usize>()
    }
}
