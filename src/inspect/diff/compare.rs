//! Compares two rulesets chain by chain.
//!
//! In a dispatch chain, the rules of each service port are compared as a chain of their own,
//! because their position among those of other service ports has no effect.

use std::collections::BTreeMap;

use super::effects::effects;
use super::review::{
    ChainReview, NotSelected, PortChange, PortReview, Review, paired, without_cosmetics,
};
use crate::inspect::catalog::{Catalog, PortName};
use crate::net::IpFamily;
use crate::rules::{Rule, RuleSet, Table};
use crate::ruleset::{ChainRole, KUBE_NODEPORTS, KUBE_PROXY_CANARY};

pub fn compare<'a>(family: IpFamily, live: &'a RuleSet, desired: &'a RuleSet) -> Review<'a> {
    let catalogs = (Catalog::read(live), Catalog::read(desired));
    let owners = (catalogs.0.owners(), catalogs.1.owners());
    let mut by_port = ChainsByPort::default();
    let (mut stale, mut fixed) = (Vec::new(), compare_fixed(live, desired));
    by_port.compare_dispatch_chains(live, desired);
    let names = chain_names(live, desired, Table::Nat).into_iter();
    for name in names.filter(|name| ChainRole::of(Table::Nat, name) == ChainRole::Service) {
        // Nearly all chains of a large cluster are equal: they are compared without a copy.
        if live.chain(Table::Nat, name) == desired.chain(Table::Nat, name) {
            continue;
        }
        let rules = |rules| rules_of(rules, Table::Nat, name);
        let (old, new) = (rules(live), rules(desired));
        let review = ChainReview::of((Table::Nat, name), old.as_deref(), new.as_deref());
        let Some(review) = review else {
            continue;
        };
        match owners.1.get(name).or_else(|| owners.0.get(name)) {
            Some(owner) => by_port.add((*owner).clone(), review),
            None => stale.push(ChainReview {
                is_cosmetic: true,
                ..review
            }),
        }
    }
    fixed.sort_by_key(|review| (review.table, review.chain));
    let ports = by_port.into_sorted();
    Review {
        family,
        ports: ports
            .map(|(name, chains)| compare_port(&catalogs, name, chains))
            .collect(),
        fixed,
        stale,
        third_party: count_third_party(live, desired),
        not_selected: NotSelected::default(),
        other_backend: None,
    }
}

fn rules_of<'a>(rules: &'a RuleSet, table: Table, chain: &str) -> Option<Vec<&'a Rule>> {
    let chain = rules.chain(table, chain)?;
    Some(chain.rules.iter().collect())
}

fn compare_port<'a>(
    catalogs: &(Catalog, Catalog),
    name: PortName,
    chains: Vec<ChainReview<'a>>,
) -> PortReview<'a> {
    let views = (catalogs.0.ports.get(&name), catalogs.1.ports.get(&name));
    let change = match views {
        (None, Some(_)) => PortChange::Appears,
        (Some(_), None) => PortChange::Disappears,
        _ if chains.iter().all(|chain| chain.is_cosmetic) => PortChange::Cosmetic,
        _ => PortChange::Changes,
    };
    let effects = match change {
        PortChange::Cosmetic => Vec::new(),
        _ => effects(views.0, views.1, &chains),
    };
    PortReview {
        name,
        change,
        effects,
        chains,
    }
}

#[derive(Default)]
struct ChainsByPort<'a>(BTreeMap<PortName, Vec<ChainReview<'a>>>);

impl<'a> ChainsByPort<'a> {
    /// Compares the rules of each service port in dispatch chains.
    fn compare_dispatch_chains(&mut self, live: &'a RuleSet, desired: &'a RuleSet) {
        for (table, chain) in dispatch_chains(live, desired) {
            // Rules without a service port belong to the fixed part.
            let of_ports = |rules: &'a RuleSet| {
                let rules = dispatch_rules(rules, table, chain).into_iter();
                rules.filter_map(|(port, rules)| Some((port?, rules)))
            };
            for (port, [live, desired]) in paired(of_ports(live), of_ports(desired)) {
                let review = ChainReview::of((table, chain), Some(&live), Some(&desired));
                if let Some(review) = review {
                    self.add(port, review);
                }
            }
        }
    }

    fn add(&mut self, port: PortName, review: ChainReview<'a>) {
        self.0.entry(port).or_default().push(review);
    }

    fn into_sorted(self) -> impl Iterator<Item = (PortName, Vec<ChainReview<'a>>)> {
        self.0.into_iter().map(|(port, mut chains)| {
            chains.sort_by_key(|chain| (chain.table, chain.chain));
            (port, chains)
        })
    }
}

/// Compares what does not depend on Services: fixed chains, jumps in built-in chains, and rules of
/// dispatch chains without a service port.
fn compare_fixed<'a>(live: &'a RuleSet, desired: &'a RuleSet) -> Vec<ChainReview<'a>> {
    let mut reviews = Vec::new();
    for table in Table::ALL {
        let names = chain_names(live, desired, table);
        reviews.extend(names.into_iter().filter_map(|name| {
            let rules = |rules: &'a RuleSet| rules_of(rules, table, name);
            match ChainRole::of(table, name) {
                ChainRole::Fixed => {
                    let (live, desired) = (rules(live), rules(desired));
                    let review =
                        ChainReview::of((table, name), live.as_deref(), desired.as_deref())?;
                    // Canaries have no rules, and no jump leads to them.
                    let is_cosmetic = review.is_cosmetic || name == KUBE_PROXY_CANARY;
                    Some(ChainReview {
                        is_cosmetic,
                        ..review
                    })
                }
                ChainRole::BuiltIn => {
                    compare_built_in((table, name), rules(live), &rules(desired)?)
                }
                ChainRole::Service
                | ChainRole::Tree
                | ChainRole::Dispatch
                | ChainRole::ThirdParty => None,
            }
        }));
    }
    let dispatch = dispatch_chains(live, desired);
    reviews.extend(dispatch.filter_map(|place| compare_unnamed(place, live, desired)));
    reviews
}

/// Returns the desired rules that are missing. Third-party rules may stand between those of the
/// proxy, and a restore neither moves nor removes them.
fn compare_built_in<'a>(
    place: (Table, &'a str),
    live: Option<Vec<&'a Rule>>,
    desired: &[&'a Rule],
) -> Option<ChainReview<'a>> {
    let Some(live) = live else {
        return ChainReview::of(place, None, Some(desired));
    };
    let mut missing = desired.to_vec();
    missing.retain(|rule| !live.contains(rule));
    if missing.is_empty() {
        return None;
    }
    let has_equivalent = |rule: &&Rule| {
        let wanted = without_cosmetics(rule);
        live.iter().any(|rule| without_cosmetics(rule) == wanted)
    };
    let is_cosmetic = missing.iter().all(has_equivalent);
    let review = ChainReview::of(place, Some(&[]), Some(&missing))?;
    Some(ChainReview {
        is_cosmetic,
        ..review
    })
}

/// Compares the rules of a dispatch chain without a service port: the jump to `KUBE-NODEPORTS`,
/// which has to come last, and third-party rules.
fn compare_unnamed<'a>(
    (table, name): (Table, &'a str),
    live: &'a RuleSet,
    desired: &'a RuleSet,
) -> Option<ChainReview<'a>> {
    let rules = |rules: &'a RuleSet| {
        let chain = rules.chain(table, name);
        chain.map(|_| {
            let unnamed = dispatch_rules(rules, table, name).remove(&None);
            unnamed.unwrap_or_default()
        })
    };
    let (old, new) = (rules(live), rules(desired));
    let review = ChainReview::of((table, name), old.as_deref(), new.as_deref());
    if review.is_some() || !has_rules_after_node_ports(live, table, name) {
        return review;
    }
    // The restore deletes the jump and appends it after the other rules.
    let removed = ChainReview::of((table, name), Some(&old?), Some(&[]))?;
    let added = ChainReview::of((table, name), Some(&[]), new.as_deref())?;
    Some(ChainReview {
        edits: [removed.edits, added.edits].concat(),
        ..added
    })
}

/// Counts the live rules that a restore leaves alone.
fn count_third_party(live: &RuleSet, desired: &RuleSet) -> usize {
    let in_tables = Table::ALL.into_iter().flat_map(|table| {
        live.chains(table).map(move |(name, chain)| {
            let role = ChainRole::of(table, name);
            let desired = desired.rules_of(table, name);
            let is_third_party = |rule: &&Rule| match role {
                ChainRole::ThirdParty => true,
                ChainRole::BuiltIn => !desired.contains(rule),
                ChainRole::Service | ChainRole::Tree | ChainRole::Dispatch | ChainRole::Fixed => {
                    false
                }
            };
            chain.rules.iter().filter(is_third_party).count()
        })
    });
    live.rule_count_elsewhere() + in_tables.sum::<usize>()
}

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
    for rule in rules.rules_of(table, chain) {
        let port = PortName::of_dispatch_rule(rule).map(|(port, _)| port);
        by_port.entry(port).or_default().push(rule);
    }
    by_port
}

/// Reports whether a service port's rule stands after the jump to `KUBE-NODEPORTS`, which has to
/// be the last rule of a dispatch chain.
pub(super) fn has_rules_after_node_ports(rules: &RuleSet, table: Table, chain: &str) -> bool {
    let rules = rules.rules_of(table, chain).iter();
    let mut after = rules.skip_while(|rule| rule.target_chain() != Some(KUBE_NODEPORTS));
    after.any(|rule| PortName::of_dispatch_rule(rule).is_some())
}
