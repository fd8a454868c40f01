//! Compares two rule sets chain by chain, for tests and benchmarks, by the feature `testing`.
//!
//! The comparison can be limited to some chains, and can ignore the order of rules where it has no
//! effect.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::chain::Chain;
use super::grammar::Rule;
use super::ruleset::RuleSet;
use super::table::Table;

/// Scope and strictness of a comparison.
#[derive(Clone, Copy)]
pub struct Comparison<'a> {
    /// Chains to compare.
    pub chosen: &'a dyn Fn(Table, &str) -> bool,
    /// Chains in which the order of rules is ignored, but not their number.
    pub unordered: &'a [(Table, &'a str)],
}

impl Comparison<'_> {
    /// Compares all chains, and the order of rules in each.
    pub const STRICT: Comparison<'static> = Comparison {
        chosen: &|_, _| true,
        unordered: &[],
    };

    /// Returns the changes that turn `left` into `right`.
    pub fn compare(&self, left: &RuleSet, right: &RuleSet) -> Difference {
        let mut chains = Vec::new();
        for table in Table::ALL {
            let names: BTreeSet<&str> = left
                .chains(table)
                .chain(right.chains(table))
                .map(|(name, _)| name)
                .filter(|name| (self.chosen)(table, name))
                .collect();
            for name in names {
                let pair = (left.chain(table, name), right.chain(table, name));
                if let Some(change) = self.change(table, name, pair) {
                    let chain = name.to_owned();
                    chains.push(ChainDifference {
                        table,
                        chain,
                        change,
                    });
                }
            }
        }
        Difference { chains }
    }

    fn change(
        &self,
        table: Table,
        name: &str,
        pair: (Option<&Chain>, Option<&Chain>),
    ) -> Option<ChainChange> {
        let (left, right) = match pair {
            (Some(left), Some(right)) => (left, right),
            (Some(left), None) => return Some(ChainChange::OnlyLeft(left.rules.clone())),
            (None, Some(right)) => return Some(ChainChange::OnlyRight(right.rules.clone())),
            (None, None) => return None,
        };
        if left == right {
            return None;
        }
        let removed = missing(&left.rules, &right.rules);
        let added = missing(&right.rules, &left.rules);
        if !removed.is_empty() || !added.is_empty() {
            return Some(ChainChange::Rules { removed, added });
        }
        if left.policy != right.policy {
            return Some(ChainChange::Policy);
        }
        let is_ordered = !self.unordered.contains(&(table, name));
        is_ordered.then_some(ChainChange::Order)
    }
}

/// Returns the rules of `all` that are not in `found`; one that occurs more often, as often as it
/// is missing.
fn missing(all: &[Rule], found: &[Rule]) -> Vec<Rule> {
    let mut remaining: BTreeMap<&Rule, usize> = BTreeMap::new();
    for rule in found {
        *remaining.entry(rule).or_default() += 1;
    }
    let mut rules = Vec::new();
    for rule in all {
        match remaining.get_mut(rule) {
            Some(count) if *count > 0 => *count -= 1,
            _ => rules.push(rule.clone()),
        }
    }
    rules
}

/// Chains that differ, sorted by table and name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// One entry for each chain; empty if the rule sets are equal.
    pub chains: Vec<ChainDifference>,
}

impl Difference {
    /// Reports whether the rule sets are equal.
    pub const fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }
}

/// Difference of one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainDifference {
    /// Table of the chain.
    pub table: Table,
    /// Name of the chain.
    pub chain: String,
    /// Kind of difference.
    pub change: ChainChange,
}

/// Kind of difference of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainChange {
    /// The chain is on the left only, with these rules.
    OnlyLeft(Vec<Rule>),
    /// The chain is on the right only, with these rules.
    OnlyRight(Vec<Rule>),
    /// The chain has different rules.
    Rules {
        /// Rules that are missing on the right.
        removed: Vec<Rule>,
        /// Rules that are missing on the left.
        added: Vec<Rule>,
    },
    /// Equal rules in a different order.
    Order,
    /// Equal rules, different policies.
    Policy,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chains.iter().try_for_each(|chain| chain.fmt(f))
    }
}

impl fmt::Display for ChainDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, chain, .. } = self;
        let none: &[Rule] = &[];
        let (description, removed, added) = match &self.change {
            ChainChange::OnlyLeft(rules) => ("only on the left", rules.as_slice(), none),
            ChainChange::OnlyRight(rules) => ("only on the right", none, rules.as_slice()),
            ChainChange::Rules { removed, added } => {
                ("differs", removed.as_slice(), added.as_slice())
            }
            ChainChange::Order => ("differs in order", none, none),
            ChainChange::Policy => ("differs in policy", none, none),
        };
        writeln!(f, "{table} chain `{chain}` {description}")?;
        for (sign, rules) in [('-', removed), ('+', added)] {
            for rule in rules {
                writeln!(f, "{}", format!("  {sign} -A {chain} {rule}").trim_end())?;
            }
        }
        Ok(())
    }
}
