//! Roles of chains, by table and name, and the form of dispatch of a ruleset.

use super::service_chain::is_service_chain;
use super::shared_chains::{
    DispatchChain, FILTER_CHAINS, KUBE_FIREWALL, KUBE_PROXY_CANARY, NAT_CHAINS,
};
use super::tree_chain::tree_of;
#[cfg(feature = "tools")]
use crate::rules::RuleSet;
use crate::rules::{COUNTER_TEST_CHAIN, Table};

/// Role of a chain in the ruleset of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChainRole {
    /// Belongs to one service port or to one of its endpoints, in a ruleset of any release.
    Service,
    /// Holds rules of every service port; their order between service ports has no effect.
    Dispatch,
    /// Holds a part of the rules of a dispatch chain.
    Tree,
    /// Fixed chain or canary: exists whatever the Services are.
    Fixed,
    /// Belongs to the kernel, or to kubelet (`KUBE-FIREWALL`), and may hold rules of a proxy.
    BuiltIn,
    ThirdParty,
}

impl ChainRole {
    pub(crate) fn of(table: Table, name: &str) -> Self {
        let is_shared = match table {
            Table::Filter => FILTER_CHAINS.contains(&name),
            Table::Nat => NAT_CHAINS.contains(&name),
            Table::Mangle => false,
        };
        if DispatchChain::find(table, name).is_some() {
            Self::Dispatch
        } else if is_shared || name == KUBE_PROXY_CANARY {
            Self::Fixed
        } else if tree_of(table, name).is_some() {
            Self::Tree
        } else if table == Table::Nat && is_service_chain(name) {
            Self::Service
        } else if table.built_in_chains().contains(&name)
            || (table, name) == (Table::Filter, KUBE_FIREWALL)
        {
            Self::BuiltIn
        } else {
            Self::ThirdParty
        }
    }
}

/// Reports whether a kube-proxy in mode iptables, or this program, makes a chain of this name in
/// this table: a Service chain of any release, a tree chain, or a shared chain of the current one.
/// Chains that kubelet makes and owns are none of them: `KUBE-FIREWALL` and `KUBE-MARK-DROP`.
pub(crate) fn is_proxy_chain(table: Table, name: &str) -> bool {
    match ChainRole::of(table, name) {
        ChainRole::Service | ChainRole::Dispatch | ChainRole::Tree | ChainRole::Fixed => true,
        ChainRole::BuiltIn => false,
        ChainRole::ThirdParty => (table, name) == (Table::Mangle, COUNTER_TEST_CHAIN),
    }
}

/// Reports whether a chain is a dispatch chain or a chain of its tree.
pub(crate) fn holds_dispatch_rules(table: Table, name: &str) -> bool {
    matches!(
        ChainRole::of(table, name),
        ChainRole::Dispatch | ChainRole::Tree
    )
}

/// Arrangement of the rules of a dispatch chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DispatchForm {
    /// All rules are in the dispatch chain itself.
    Flat,
    /// Rules are in a tree of chains.
    Tree,
}

/// Puts the rules of dispatch trees into their dispatch chains. The same rules match a packet, so
/// that the arrangement is not a difference.
#[cfg(feature = "tools")]
pub fn flattened(mut rules: RuleSet) -> RuleSet {
    rules.inline_chains(|table, name| tree_of(table, name).is_some());
    rules
}
