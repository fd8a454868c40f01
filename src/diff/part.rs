//! Which part of a ruleset a chain is.
//!
//! Apart because it decides what is compared at all, and how.

use crate::catalog::is_service_chain;
use crate::rules::{RuleSet, Table};

/// Which part of a ruleset a chain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It belongs to one service port.
    Service,
    /// All service ports have rules in it; whose come first means nothing.
    Shared,
    /// It is there whatever the Services are.
    SetUp,
    /// The kernel's, or kubelet's: ours are those rules that we want in it, and they are never
    /// moved.
    Visited,
    /// Somebody else's.
    Foreign,
}

/// The empty chains that tell whether somebody flushed the tables.
const CANARY: &str = "KUBE-PROXY-CANARY";

impl Part {
    pub(super) fn of(table: Table, chain: &str) -> Self {
        match (table, chain) {
            (_, CANARY)
            | (Table::Filter, "KUBE-FORWARD")
            | (Table::Nat, "KUBE-POSTROUTING" | "KUBE-MARK-MASQ") => Self::SetUp,
            (Table::Filter | Table::Nat, "KUBE-SERVICES" | "KUBE-NODEPORTS")
            | (Table::Filter, "KUBE-EXTERNAL-SERVICES" | "KUBE-PROXY-FIREWALL") => Self::Shared,
            (Table::Nat, name) if is_service_chain(name) => Self::Service,
            (Table::Filter, "KUBE-FIREWALL") => Self::Visited,
            (table, name) if table.built_in_chains().contains(&name) => Self::Visited,
            _ => Self::Foreign,
        }
    }
}

/// The chains of a table that either side has, sorted.
pub(super) fn names<'a>(left: &'a RuleSet, right: &'a RuleSet, table: Table) -> Vec<&'a str> {
    let chains = left.chains(table).chain(right.chains(table));
    let mut names: Vec<&str> = chains.map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    names
}
