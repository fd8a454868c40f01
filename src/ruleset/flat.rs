//! Rulesets whose dispatch trees are put into their dispatch chains.

use super::tree_chain::tree_of;
use crate::rules::{RuleSet, Table};

/// Reports whether rules have a chain of a dispatch tree.
pub(crate) fn has_trees(rules: &RuleSet) -> bool {
    let mut tables = Table::ALL.into_iter();
    tables.any(|table| {
        let mut names = rules.chains(table).map(|(name, _)| name);
        names.any(|name| tree_of(table, name).is_some())
    })
}

/// Puts the rules of dispatch trees into their dispatch chains. The same rules match a packet, so
/// that the arrangement is not a difference.
pub(crate) fn flattened(rules: RuleSet) -> RuleSet {
    if has_trees(&rules) {
        inline_trees(&rules)
    } else {
        rules
    }
}

/// Returns rules with all dispatch chains flat: those of trees are put into their dispatch chains.
pub fn inline_trees(rules: &RuleSet) -> RuleSet {
    let mut flat = rules.clone();
    flat.inline_chains(|table, name| tree_of(table, name).is_some());
    flat
}
