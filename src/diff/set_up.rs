//! What is there whatever the Services are: fixed chains, jumps to ours, and what is in shared
//! chains without being about a service port.
//!
//! Apart because here other people's rules come in between. A restore neither moves nor removes
//! them, so only what is missing of ours counts in chains that we visit.

use super::cosmetic;
use super::part::{self, Part};
use super::port_rules::{shared, shared_chains};
use super::review::ChainReview;
use crate::catalog::PortName;
use crate::rules::{Rule, RuleSet, Table};

/// How the set-up differs, sorted by table and chain.
pub(super) fn compare<'a>(left: &'a RuleSet, right: &'a RuleSet) -> Vec<ChainReview<'a>> {
    let mut reviews = Vec::new();
    for table in Table::ALL {
        let names = part::names(left, right, table);
        reviews.extend(names.into_iter().filter_map(|name| {
            let rules = |rules: &'a RuleSet| rules_of(rules, table, name);
            match Part::of(table, name) {
                Part::SetUp => ChainReview::of(
                    (table, name),
                    rules(left).as_deref(),
                    rules(right).as_deref(),
                ),
                Part::Visited => visited((table, name), rules(left), &rules(right)?),
                Part::Service | Part::Shared | Part::Foreign => None,
            }
        }));
    }
    let shared = shared_chains(left, right).filter_map(|place| unnamed(place, left, right));
    reviews.extend(shared);
    reviews.sort_by_key(|review| (review.table, review.chain));
    reviews
}

fn rules_of<'a>(rules: &'a RuleSet, table: Table, name: &str) -> Option<Vec<&'a Rule>> {
    let chain = rules.chain(table, name)?;
    Some(chain.rules.iter().collect())
}

/// What the right has and the left lacks.
fn visited<'a>(
    place: (Table, &'a str),
    left: Option<Vec<&'a Rule>>,
    right: &[&'a Rule],
) -> Option<ChainReview<'a>> {
    let Some(left) = left else {
        return ChainReview::of(place, None, Some(right));
    };
    let is_there = |wanted: &&Rule| left.contains(wanted);
    let missing: Vec<&Rule> = right
        .iter()
        .copied()
        .filter(|rule| !is_there(rule))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let has_alike = |wanted: &&Rule| {
        let wanted = cosmetic::bare(wanted);
        left.iter().any(|rule| cosmetic::bare(rule) == wanted)
    };
    let is_cosmetic = missing.iter().all(has_alike);
    let review = ChainReview::of(place, Some(&[]), Some(&missing))?;
    Some(ChainReview {
        is_cosmetic,
        is_reordered: false,
        ..review
    })
}

/// The rules of a shared chain that are about no service port: the way to NodePorts, which has to
/// come last, and what somebody put there.
fn unnamed<'a>(
    (table, name): (Table, &'a str),
    left: &'a RuleSet,
    right: &'a RuleSet,
) -> Option<ChainReview<'a>> {
    let rules = |rules: &'a RuleSet| {
        let chain = rules.chain(table, name);
        chain.map(|_| {
            let unnamed = shared(rules, table, name).remove(&None);
            unnamed.unwrap_or_default()
        })
    };
    let mut held = rules(left);
    let wanted = rules(right);
    let review = ChainReview::of((table, name), held.as_deref(), wanted.as_deref());
    if review.is_some() || !is_overtaken(left, table, name) {
        return review;
    }
    // It has to go and come back behind the others.
    let moved = held.take()?;
    let removed = ChainReview::of((table, name), Some(&moved), Some(&[]))?;
    let added = ChainReview::of((table, name), Some(&[]), wanted.as_deref())?;
    Some(ChainReview {
        edits: [removed.edits, added.edits].concat(),
        is_reordered: true,
        ..added
    })
}

/// Whether a service port's rule comes behind the way to NodePorts.
pub(super) fn is_overtaken(rules: &RuleSet, table: Table, name: &str) -> bool {
    let rules = rules.chain(table, name).into_iter();
    let rules = rules.flat_map(|chain| &chain.rules);
    let mut behind = rules.skip_while(|rule| rule.target_chain() != Some("KUBE-NODEPORTS"));
    behind.any(|rule| PortName::of_shared(rule).is_some())
}

/// The rules of the left that are nobody's business here.
pub(super) fn count_foreign(left: &RuleSet, right: &RuleSet) -> usize {
    let elsewhere: usize = left.unmodeled_tables().map(|(_, rules)| rules).sum();
    let here = Table::ALL.into_iter().flat_map(|table| {
        left.chains(table).map(move |(name, chain)| {
            let part = Part::of(table, name);
            let ours = right
                .chain(table, name)
                .map_or(&[][..], |chain| &chain.rules);
            let is_foreign = |rule: &&Rule| match part {
                Part::Foreign => true,
                Part::Visited => !ours.contains(rule),
                Part::Service | Part::Shared | Part::SetUp => false,
            };
            chain.rules.iter().filter(is_foreign).count()
        })
    });
    elsewhere + here.sum::<usize>()
}
