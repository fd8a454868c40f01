//! What each service port has in chains, its own and shared ones.
//!
//! Apart because of the shared chains: there each service port's rules are a chain of their own, as
//! it were, and where they stand among others' means nothing.

use std::collections::BTreeMap;

use super::part::{self, Part};
use super::review::ChainReview;
use crate::catalog::PortName;
use crate::rules::{Rule, RuleSet, Table};

/// The chains that differ, by service port.
#[derive(Default)]
pub(super) struct PortRules<'a> {
    by_port: BTreeMap<PortName, Vec<ChainReview<'a>>>,
}

/// The rules of one shared chain by service port; under `None` those about no service port.
pub(super) type Shared<'a> = BTreeMap<Option<PortName>, Vec<&'a Rule>>;

/// Deals out the rules of a shared chain.
pub(super) fn shared<'a>(rules: &'a RuleSet, table: Table, chain: &str) -> Shared<'a> {
    let mut shared = Shared::new();
    let rules = rules.chain(table, chain).into_iter();
    for rule in rules.flat_map(|chain| &chain.rules) {
        let port = PortName::of_shared(rule).map(|(port, _)| port);
        shared.entry(port).or_default().push(rule);
    }
    shared
}

/// The shared chains that either side has.
pub(super) fn shared_chains<'a>(
    left: &'a RuleSet,
    right: &'a RuleSet,
) -> impl Iterator<Item = (Table, &'a str)> {
    Table::ALL.into_iter().flat_map(move |table| {
        let names = part::names(left, right, table).into_iter();
        let shared = names.filter(move |name| Part::of(table, name) == Part::Shared);
        shared.map(move |name| (table, name))
    })
}

impl<'a> PortRules<'a> {
    /// Compares what service ports have in the shared chains.
    pub(super) fn compare_shared(&mut self, left: &'a RuleSet, right: &'a RuleSet) {
        for (table, chain) in shared_chains(left, right) {
            let (left, mut right) = (shared(left, table, chain), shared(right, table, chain));
            for (port, left) in left {
                let right = right.remove(&port).unwrap_or_default();
                self.add_shared((table, chain), port, &left, &right);
            }
            for (port, right) in right {
                self.add_shared((table, chain), port, &[], &right);
            }
        }
    }

    fn add_shared(
        &mut self,
        place: (Table, &'a str),
        port: Option<PortName>,
        left: &[&'a Rule],
        right: &[&'a Rule],
    ) {
        let review = ChainReview::of(place, Some(left), Some(right));
        if let (Some(port), Some(review)) = (port, review) {
            self.by_port.entry(port).or_default().push(review);
        }
    }

    /// A chain of the service port's own.
    pub(super) fn add(&mut self, port: &PortName, review: ChainReview<'a>) {
        match self.by_port.get_mut(port) {
            Some(chains) => chains.push(review),
            None => drop(self.by_port.insert(port.clone(), vec![review])),
        }
    }

    /// All that differ, sorted.
    pub(super) fn into_ports(self) -> impl Iterator<Item = (PortName, Vec<ChainReview<'a>>)> {
        self.by_port.into_iter().map(|(port, mut chains)| {
            chains.sort_by_key(|chain| (chain.table, chain.chain));
            (port, chains)
        })
    }
}
