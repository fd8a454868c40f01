//! Takes our rules out again: payloads that leave a table as if no proxy had ever written to it.
//!
//! Apart because it starts from the kernel's rules alone, whoever wrote them with whatever options,
//! and of whatever version.
//!
//! # Source
//!
//! Upstream: pkg/proxy/iptables/proxier.go, `cleanupLeftoversForFamily` (v1.36)
//!
//! Differs from upstream: jumps of older versions go, too, and those that are there twice. A chain
//! that somebody else's rule leads to is emptied and stays; there, nothing of its table would be
//! removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::base::{CANARY, FILTER_CHAINS, NAT_CHAINS};
use super::chain::is_service_chain;
use super::jump::JUMPS;
use crate::rules::{COUNTER_TEST_CHAIN, Rule, Table};

/// How to remove what is ours from one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Which table.
    pub table: Table,
    /// For `iptables-restore --noflush`: jumps and chains go at once, or not at all.
    pub payload: String,
    /// How many jumps to our chains are removed from built-in ones.
    pub jumps: usize,
    /// How many chains are removed.
    pub chains: usize,
    /// The chains that are emptied only, because rules of others lead to them; sorted.
    pub kept: Vec<String>,
}

impl Removal {
    /// One for each table in which something is ours, in the order of tables; `save` is all that
    /// `iptables-save` printed.
    pub fn of(save: &str) -> Vec<Self> {
        let found = Found::read(save).into_iter();
        found
            .filter(|(_, found)| !found.chains.is_empty())
            .map(|(table, found)| Self::new(table, &found))
            .collect()
    }

    fn new(table: Table, found: &Found<'_>) -> Self {
        let (jumps, kept) = found.leading_here(table);
        // Writing to a String cannot fail.
        let mut payload = format!("*{table}\n");
        for chain in &found.chains {
            let _ = writeln!(payload, ":{chain} - [0:0]");
        }
        for (from, rule) in &jumps {
            let _ = writeln!(payload, "-D {from} {rule}");
        }
        let removed = found.chains.difference(&kept);
        for chain in removed.clone() {
            let _ = writeln!(payload, "-X {chain}");
        }
        payload.push_str("COMMIT\n");
        Self {
            table,
            payload,
            jumps: jumps.len(),
            chains: removed.count(),
            kept: kept.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// What a table has of ours, and what may lead to it.
#[derive(Debug, Default)]
struct Found<'s> {
    chains: BTreeSet<&'s str>,
    /// Rules of chains that are not ours, and which those are.
    others: Vec<(&'s str, &'s str)>,
}

impl<'s> Found<'s> {
    fn read(save: &'s str) -> BTreeMap<Table, Self> {
        let mut tables: BTreeMap<Table, Self> = BTreeMap::new();
        let mut current = None;
        for line in save.lines().map(without_counters) {
            if let Some(name) = line.strip_prefix('*') {
                current = Table::from_name(name.trim());
            }
            let Some(table) = current else {
                continue;
            };
            let found = tables.entry(table).or_default();
            if let Some(declared) = line.strip_prefix(':') {
                let name = declared.split(' ').next().unwrap_or_default();
                if is_ours(table, name) {
                    found.chains.insert(name);
                }
            } else if let Some(rule) = line.strip_prefix("-A ")
                && let Some((chain, rule)) = rule.split_once(' ')
                && !is_ours(table, chain)
            {
                found.others.push((chain, rule));
            }
        }
        tables
    }

    /// The jumps of a proxy, and the chains that others' rules lead to. A rule that cannot be read
    /// leads to whatever it names.
    fn leading_here(&self, table: Table) -> (Vec<(&'s str, &'s str)>, BTreeSet<&'s str>) {
        let (mut jumps, mut held) = (Vec::new(), BTreeSet::new());
        let known = known_jumps(table);
        for (from, text) in &self.others {
            let Ok(rule) = text.parse::<Rule>() else {
                let words = text.split_whitespace();
                held.extend(words.filter(|word| self.chains.contains(word)));
                continue;
            };
            let target = rule.target_chain();
            let Some(target) = target.and_then(|name| self.chains.get(name)) else {
                continue;
            };
            let said = (Some(*target), rule.comment());
            let is_built_in = table.built_in_chains().contains(from);
            let mut known = known.iter();
            if is_built_in && known.any(|jump| (jump.target_chain(), jump.comment()) == said) {
                jumps.push((*from, *text));
            } else {
                held.insert(*target);
            }
        }
        (jumps, held)
    }
}

/// The line without what a save with counters begins with.
fn without_counters(line: &str) -> &str {
    let counted = line.strip_prefix('[');
    counted
        .and_then(|line| line.split_once("] "))
        .map_or(line, |(_, rule)| rule)
}

/// Jumps are told by where they lead and what they say: what they match, and where they are, has
/// changed over the years.
fn known_jumps(table: Table) -> Vec<Rule> {
    let jumps = JUMPS.iter().filter(|jump| jump.table == table);
    jumps.filter_map(|jump| jump.rule.parse().ok()).collect()
}

fn is_ours(table: Table, chain: &str) -> bool {
    let is_fixed = match table {
        Table::Filter => FILTER_CHAINS.contains(&chain),
        Table::Nat => NAT_CHAINS.contains(&chain) || is_service_chain(chain),
        Table::Mangle => chain == COUNTER_TEST_CHAIN,
    };
    is_fixed || chain == CANARY
}
