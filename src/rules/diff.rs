//! How two rule sets differ, chain by chain.
//!
//! Apart because it is how tests and the `diff` command say "equal": only about chosen chains,
//! and deaf to the order of rules where the order does not matter.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::chain::Chain;
use super::rule::Rule;
use super::ruleset::RuleSet;
use super::table::Table;

/// What is compared, and how strictly.
#[derive(Clone, Copy)]
pub struct Comparison<'a> {
    /// The chains to look at.
    pub chosen: &'a dyn Fn(Table, &str) -> bool,
    /// Chains in which only the set of rules counts, each as often as it is there.
    pub unordered: &'a [(Table, &'a str)],
}

impl Comparison<'_> {
    /// Every chain, every order.
    pub const STRICT: Comparison<'static> = Comparison {
        chosen: &|_, _| true,
        unordered: &[],
    };

    /// What makes `right` differ from `left`.
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
    ) -> Option<Change> {
        let (left, right) = match pair {
            (Some(left), Some(right)) => (left, right),
            (Some(left), None) => return Some(Change::OnlyLeft(left.rules.clone())),
            (None, Some(right)) => return Some(Change::OnlyRight(right.rules.clone())),
            (None, None) => return None,
        };
        if left == right {
            return None;
        }
        let removed = missing(&left.rules, &right.rules);
        let added = missing(&right.rules, &left.rules);
        if !removed.is_empty() || !added.is_empty() {
            return Some(Change::Rules { removed, added });
        }
        if left.policy != right.policy {
            return Some(Change::Policy);
        }
        let is_ordered = !self.unordered.contains(&(table, name));
        is_ordered.then_some(Change::Order)
    }
}

/// The rules of `all` that are not in `found`, each as often as it is missing.
fn missing(all: &[Rule], found: &[Rule]) -> Vec<Rule> {
    let mut left_over: BTreeMap<&Rule, usize> = BTreeMap::new();
    for rule in found {
        *left_over.entry(rule).or_default() += 1;
    }
    let mut rules = Vec::new();
    for rule in all {
        match left_over.get_mut(rule) {
            Some(count) if *count > 0 => *count -= 1,
            _ => rules.push(rule.clone()),
        }
    }
    rules
}

/// Every chain that differs, sorted by table and name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// The chains; none if the rule sets are equal.
    pub chains: Vec<ChainDifference>,
}

impl Difference {
    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }
}

/// A chain that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainDifference {
    /// Where it is.
    pub table: Table,
    /// Its name.
    pub chain: String,
    /// How it differs.
    pub change: Change,
}

/// How a chain differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is on the left only, with these rules.
    OnlyLeft(Vec<Rule>),
    /// It is on the right only, with these rules.
    OnlyRight(Vec<Rule>),
    /// It has other rules.
    Rules {
        /// Those of the left that the right lacks.
        removed: Vec<Rule>,
        /// Those of the right that the left lacks.
        added: Vec<Rule>,
    },
    /// The same rules in another order.
    Order,
    /// The same rules under another policy.
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
        let (what, removed, added) = match &self.change {
            Change::OnlyLeft(rules) => ("only on the left", rules.as_slice(), none),
            Change::OnlyRight(rules) => ("only on the right", none, rules.as_slice()),
            Change::Rules { removed, added } => ("differs", removed.as_slice(), added.as_slice()),
            Change::Order => ("differs in order", none, none),
            Change::Policy => ("differs in policy", none, none),
        };
        writeln!(f, "{table} chain `{chain}` {what}")?;
        for (sign, rules) in [('-', removed), ('+', added)] {
            for rule in rules {
                writeln!(f, "{}", format!("  {sign} -A {chain} {rule}").trim_end())?;
            }
        }
        Ok(())
    }
}
