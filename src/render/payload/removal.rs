//! Removes the rules of the proxy: payloads that leave a table as if no proxy had ever written to
//! it, except for empty chains that other rules reference.
//!
//! Chains and jumps are taken from what `iptables-save` printed, not from options or the applied
//! state: a proxy of any version may have written them, with any options.
//!
//! # Source
//!
//! Upstream: pkg/proxy/iptables/cleanup.go, `cleanupLeftoversForFamily` (v1.37)
//!
//! Differs from upstream: entry jumps of older versions and duplicate ones are removed as well. A
//! chain that a third-party rule references is emptied and stays. kube-proxy would try to delete
//! it; the kernel then rejects the whole payload, and all chains of the table stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::rules::{Rule, Table, without_counters};
use crate::ruleset::{JUMPS, is_proxy_chain};

/// Payload that removes the proxy's chains and entry jumps from one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Removal {
    /// Table that the payload changes.
    pub table: Table,
    /// Input of `iptables-restore --noflush`, which applies it whole or not at all.
    pub payload: String,
    /// Number of removed entry jumps.
    pub jumps: usize,
    /// Number of removed chains, without those in `kept`.
    pub chains: usize,
    /// Chains that are only emptied, because third-party rules reference them; sorted.
    pub kept: Vec<String>,
}

impl Removal {
    /// Returns one payload for each table that has chains of a proxy, in the order of tables;
    /// `save` is all that `iptables-save` printed.
    pub(crate) fn of(save: &str) -> Vec<Self> {
        let tables = ProxyChains::read(save).into_iter();
        tables
            .filter(|(_, rules)| !rules.chains.is_empty())
            .map(|(table, rules)| Self::new(table, &rules))
            .collect()
    }

    fn new(table: Table, rules: &ProxyChains<'_>) -> Self {
        let (jumps, kept) = rules.references(table);
        // Writing to a String cannot fail.
        let mut payload = format!("*{table}\n");
        for chain in &rules.chains {
            let _ = writeln!(payload, ":{chain} - [0:0]");
        }
        for (from, rule) in &jumps {
            let _ = writeln!(payload, "-D {from} {rule}");
        }
        let removed = rules.chains.difference(&kept);
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

/// Chains of a proxy in one table, and the rules of other chains, which may reference them.
#[derive(Debug, Default)]
struct ProxyChains<'s> {
    chains: BTreeSet<&'s str>,
    /// Rules of all other chains, each with the name of its chain.
    other_rules: Vec<(&'s str, &'s str)>,
}

impl<'s> ProxyChains<'s> {
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
            let rules = tables.entry(table).or_default();
            if let Some(declared) = line.strip_prefix(':') {
                let name = declared.split(' ').next().unwrap_or_default();
                if is_proxy_chain(table, name) {
                    rules.chains.insert(name);
                }
            } else if let Some(rule) = line.strip_prefix("-A ")
                && let Some((chain, rule)) = rule.split_once(' ')
                && !is_proxy_chain(table, chain)
            {
                rules.other_rules.push((chain, rule));
            }
        }
        tables
    }

    /// Returns the entry jumps of a proxy, and the chains that third-party rules reference. A rule
    /// that cannot be parsed counts as a reference to every chain that it names.
    fn references(&self, table: Table) -> (Vec<(&'s str, &'s str)>, BTreeSet<&'s str>) {
        let (mut jumps, mut referenced) = (Vec::new(), BTreeSet::new());
        let known = known_entry_jumps(table);
        for (from, text) in &self.other_rules {
            let Ok(rule) = text.parse::<Rule>() else {
                let words = text.split_whitespace();
                referenced.extend(words.filter(|word| self.chains.contains(word)));
                continue;
            };
            let target = rule.target_chain();
            let Some(target) = target.and_then(|name| self.chains.get(name)) else {
                continue;
            };
            let target_and_comment = (Some(*target), rule.comment());
            let is_built_in = table.built_in_chains().contains(from);
            let is_known =
                |jump: &Rule| (jump.target_chain(), jump.comment()) == target_and_comment;
            if is_built_in && known.iter().any(is_known) {
                jumps.push((*from, *text));
            } else {
                referenced.insert(*target);
            }
        }
        (jumps, referenced)
    }
}

/// Returns the entry jumps of a table. Those of older versions are recognized by target and
/// comment: their matches, and the built-in chains that have them, changed over the years.
fn known_entry_jumps(table: Table) -> Vec<Rule> {
    let jumps = JUMPS.iter().filter(|jump| jump.table == table);
    jumps.filter_map(|jump| jump.rule.parse().ok()).collect()
}
