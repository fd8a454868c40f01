//! Compares two rule sets chain by chain, for tests and benchmarks, by the feature `testing`.
//!
//! The comparison can be limited to some chains, and can ignore the order of rules where it has no
//! effect.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

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

    /// Returns a line for each chain that differs, sorted, with the rules of one side only;
    /// nothing if the rule sets are equal.
    pub fn compare(&self, left: &RuleSet, right: &RuleSet) -> String {
        let mut text = String::new();
        for table in Table::ALL {
            let chains = left.chains(table).chain(right.chains(table));
            let names = chains.map(|(name, _)| name);
            let chosen: BTreeSet<&str> = names.filter(|name| (self.chosen)(table, name)).collect();
            for name in chosen {
                let pair = (left.chain(table, name), right.chain(table, name));
                if let Some((description, [removed, added])) = self.change(table, name, pair) {
                    // Writing to a String cannot fail.
                    let _ = writeln!(text, "{table} chain `{name}` {description}");
                    let line = |sign, rule| format!("  {sign} -A {name} {rule}");
                    let removed = removed.into_iter().map(|rule| line('-', rule));
                    let lines = removed.chain(added.into_iter().map(|rule| line('+', rule)));
                    text.extend(lines.map(|line| format!("{}\n", line.trim_end())));
                }
            }
        }
        text
    }

    /// Returns the kind of difference of a chain, and the rules that are only left and only right.
    fn change<'c>(
        &self,
        table: Table,
        name: &str,
        pair: (Option<&'c Chain>, Option<&'c Chain>),
    ) -> Option<(&'static str, [Vec<&'c Rule>; 2])> {
        let all = |chain: &'c Chain| chain.rules.iter().collect();
        let (left, right) = match pair {
            (Some(left), Some(right)) => (left, right),
            (Some(left), None) => return Some(("only on the left", [all(left), Vec::new()])),
            (None, Some(right)) => return Some(("only on the right", [Vec::new(), all(right)])),
            (None, None) => return None,
        };
        if left == right {
            return None;
        }
        let rules = [
            missing(&left.rules, &right.rules),
            missing(&right.rules, &left.rules),
        ];
        let is_ordered = !self.unordered.contains(&(table, name));
        let description = match () {
            () if rules.iter().any(|rules| !rules.is_empty()) => "differs",
            () if left.policy != right.policy => "differs in policy",
            () if is_ordered => "differs in order",
            () => return None,
        };
        Some((description, rules))
    }
}

/// Returns the rules of `all` that are not in `found`; one that occurs more often, as often as it
/// is missing.
fn missing<'c>(all: &'c [Rule], found: &[Rule]) -> Vec<&'c Rule> {
    let mut remaining: BTreeMap<&Rule, usize> = BTreeMap::new();
    for rule in found {
        *remaining.entry(rule).or_default() += 1;
    }
    let mut rules = Vec::new();
    for rule in all {
        match remaining.get_mut(rule) {
            Some(count) if *count > 0 => *count -= 1,
            _ => rules.push(rule),
        }
    }
    rules
}
