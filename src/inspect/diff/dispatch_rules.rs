//! Chains of both sides, and the rules of a dispatch chain by service port.

use std::collections::BTreeMap;

use crate::inspect::catalog::PortName;
use crate::rules::{Rule, RuleSet, Table};
use crate::ruleset::{ChainRole, KUBE_NODEPORTS};

/// Returns the chains of a table that either side has, sorted.
pub(super) fn chain_names<'a>(
    live: &'a RuleSet,
    desired: &'a RuleSet,
    table: Table,
) -> Vec<&'a str> {
    let chains = live.chains(table).chain(desired.chains(table));
    let mut names: Vec<&str> = chains.map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the dispatch chains that either side has.
pub(super) fn dispatch_chains<'a>(
    live: &'a RuleSet,
    desired: &'a RuleSet,
) -> impl Iterator<Item = (Table, &'a str)> {
    Table::ALL.into_iter().flat_map(move |table| {
        let names = chain_names(live, desired, table).into_iter();
        let dispatch = names.filter(move |name| ChainRole::of(table, name) == ChainRole::Dispatch);
        dispatch.map(move |name| (table, name))
    })
}

/// Rules of one dispatch chain by service port; under `None` those without a service port.
pub(super) type DispatchRules<'a> = BTreeMap<Option<PortName>, Vec<&'a Rule>>;

/// Groups the rules of a dispatch chain by service port.
pub(super) fn dispatch_rules<'a>(
    rules: &'a RuleSet,
    table: Table,
    chain: &str,
) -> DispatchRules<'a> {
    let mut by_port = DispatchRules::new();
    let rules = rules.chain(table, chain).into_iter();
    for rule in rules.flat_map(|chain| &chain.rules) {
        let port = PortName::of_dispatch_rule(rule).map(|(port, _)| port);
        by_port.entry(port).or_default().push(rule);
    }
    by_port
}

/// Reports whether a service port's rule stands after the jump to `KUBE-NODEPORTS`, which has to
/// be the last rule of a dispatch chain.
pub(super) fn has_rules_after_node_ports(rules: &RuleSet, table: Table, chain: &str) -> bool {
    let rules = rules.chain(table, chain).into_iter();
    let rules = rules.flat_map(|chain| &chain.rules);
    let mut after = rules.skip_while(|rule| rule.target_chain() != Some(KUBE_NODEPORTS));
    after.any(|rule| PortName::of_dispatch_rule(rule).is_some())
}
