//! What to look at to know that our rules are still in the kernel.
//!
//! Apart because it is a sample: the jumps that everything depends on, and in each table one chain
//! that is never without rules. Whoever flushes or deletes a table takes some of them along.
//!
//! Differs from upstream: there an empty canary chain of the mangle table is all that is looked at,
//! so that a flush of the nat table, or one that deletes no chains, goes unseen for up to an hour.

use super::base::CANARY;
use super::jump::JUMPS;
use super::live::Live;
use crate::rules::Table;

/// The chains of `table` to list.
pub fn guarded_chains(table: Table) -> Vec<&'static str> {
    let mut chains = vec![CANARY];
    chains.extend(never_empty(table));
    for jump in JUMPS.iter().filter(|jump| jump.table == table) {
        if !chains.contains(&jump.from) {
            chains.push(jump.from);
        }
    }
    chains
}

/// Whether `listing`, the rules of those chains, has what it should have.
pub fn is_intact(table: Table, listing: &str) -> bool {
    let mut live = Live::default();
    live.read(table, listing);
    let has = |line: String| listing.lines().any(|known| known.starts_with(&line));
    has(format!("-N {CANARY}"))
        && never_empty(table).is_none_or(|chain| has(format!("-A {chain} ")))
        && live.missing_jumps(table).next().is_none()
}

/// A chain that always has rules of ours.
const fn never_empty(table: Table) -> Option<&'static str> {
    match table {
        Table::Filter => Some("KUBE-FORWARD"),
        Table::Nat => Some("KUBE-POSTROUTING"),
        Table::Mangle => None,
    }
}
