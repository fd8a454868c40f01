//! Recognizes chains of a proxy by table and name, and the form of dispatch of a ruleset.

use super::service_chain::is_service_chain;
use super::shared_chains::{DispatchChain, FILTER_CHAINS, KUBE_PROXY_CANARY, NAT_CHAINS};
use super::tree_chain::tree_of;
use crate::rules::{COUNTER_TEST_CHAIN, RuleSet, Table};

/// Reports whether a kube-proxy in mode iptables, or this program, makes a chain of this name in
/// this table: a Service chain of any release, a tree chain, or a shared chain of the current one.
/// Chains that kubelet makes and owns are none of them: `KUBE-FIREWALL` and `KUBE-MARK-DROP`.
pub(crate) fn is_proxy_chain(table: Table, name: &str) -> bool {
    let is_known = match table {
        Table::Filter => FILTER_CHAINS.contains(&name) || tree_of(table, name).is_some(),
        Table::Nat => NAT_CHAINS.contains(&name) || is_service_chain(name),
        Table::Mangle => name == COUNTER_TEST_CHAIN,
    };
    is_known || name == KUBE_PROXY_CANARY
}

/// Reports whether a chain is a dispatch chain or a chain of its tree.
pub(crate) fn holds_dispatch_rules(table: Table, name: &str) -> bool {
    DispatchChain::find(table, name).is_some() || tree_of(table, name).is_some()
}

/// Arrangement of the rules of a dispatch chain, or of those of a ruleset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchForm {
    /// All rules are in dispatch chains themselves.
    Flat,
    /// Rules are in a tree of chains: in a ruleset, those of at least one dispatch chain.
    Tree,
}

impl DispatchForm {
    /// All forms.
    pub const ALL: [Self; 2] = [Self::Flat, Self::Tree];

    /// Returns the value of `--service-dispatch` for this form.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Tree => "tree",
        }
    }
}

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
