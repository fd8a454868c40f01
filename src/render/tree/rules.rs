//! Rules of one dispatch chain by destination, and the shape of the tree that they make.
//!
//! The shape is a function of the rules and of the chains that are inner ones already: these merge
//! into a leaf at half the size that splits a leaf, so that one Service that comes and goes does
//! not split and merge a leaf each time.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::ServiceName;
use crate::render::service::DispatchRule;
use crate::ruleset::Prefix;

/// Maximum rules of a leaf; with more it is split.
///
/// A leaf is written whole: with eight rules of about 165 bytes, a change that splits it writes
/// less than 2 KB.
pub(super) const LEAF_RULES: usize = 8;

/// Maximum tree chains that a packet traverses one in another. The nft backend allows 16 nested
/// jumps; the chains of Services need five of them, and the dispatch chains two. Deeper leaves are
/// not split, however many rules they have: with IPv4 that takes addresses that were chosen for it.
const MOST_LEVELS: u8 = 7;

/// Position of a dispatch rule: its Service, and its place among the rules of that Service.
pub(super) type RulePosition = (ServiceName, u32);

/// Rules of one dispatch chain by destination.
#[derive(Debug, Clone, Default)]
pub(super) struct RulesByDestination {
    /// By single destination; the rules of one sorted.
    routed: BTreeMap<Prefix, Vec<RulePosition>>,
    /// Rules with several destinations, which stay in the dispatch chain.
    several: BTreeSet<RulePosition>,
}

/// Kind of a tree chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeChainKind {
    /// Holds jumps, and the only rule of a range.
    Inner,
    /// Holds rules of Services.
    Leaf,
}

/// Tree chain as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeChain {
    pub(super) range: Prefix,
    pub(super) kind: TreeChainKind,
    /// Number of tree chains from the dispatch chain to this one.
    pub(super) level: u8,
}

/// Content of a tree chain or of the dispatch chain, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry<'r> {
    Rules(&'r [RulePosition]),
    Jump(TreeChain),
}

impl RulesByDestination {
    pub(super) fn add(&mut self, rule: &DispatchRule, position: RulePosition) {
        match Prefix::of(rule.destination) {
            Some(destination) => {
                let rules = self.routed.entry(destination).or_default();
                if let Err(at) = rules.binary_search(&position) {
                    rules.insert(at, position);
                }
            }
            None => drop(self.several.insert(position)),
        }
    }

    pub(super) fn remove(&mut self, rule: &DispatchRule, position: &RulePosition) {
        let Some(destination) = Prefix::of(rule.destination) else {
            self.several.remove(position);
            return;
        };
        if let Some(rules) = self.routed.get_mut(&destination) {
            rules.retain(|known| known != position);
            if rules.is_empty() {
                self.routed.remove(&destination);
            }
        }
    }

    /// Returns the rules that stay in the dispatch chain.
    pub(super) fn several(&self) -> impl Iterator<Item = &RulePosition> {
        self.several.iter()
    }

    /// Returns the content of the dispatch chain, without the rules with several destinations.
    pub(super) fn of_root(&self, was_inner: &dyn Fn(Prefix) -> bool) -> Vec<Entry<'_>> {
        let first = self.routed.keys().next();
        first.map_or_else(Vec::new, |first| {
            self.below(first.root(), first.root(), 1, was_inner)
        })
    }

    /// Returns the content of a tree chain.
    pub(super) fn of_chain(
        &self,
        chain: TreeChain,
        was_inner: &dyn Fn(Prefix) -> bool,
    ) -> Vec<Entry<'_>> {
        match chain.kind {
            TreeChainKind::Leaf => {
                let rules = self.within(chain.range);
                rules.map(|(_, rules)| Entry::Rules(rules)).collect()
            }
            TreeChainKind::Inner => {
                let spread = self.spread(chain.range);
                self.below(chain.range, spread, chain.level + 1, was_inner)
            }
        }
    }

    /// Returns one entry for each prefix below `parent` that has rules in `range`.
    fn below(
        &self,
        range: Prefix,
        parent: Prefix,
        level: u8,
        was_inner: &dyn Fn(Prefix) -> bool,
    ) -> Vec<Entry<'_>> {
        let mut entries = Vec::new();
        let mut done: Option<Prefix> = None;
        for (destination, rules) in self.within(range) {
            if done.is_some_and(|done| done.contains(*destination)) {
                continue;
            }
            let group = parent.below(*destination);
            done = Some(group);
            entries.push(if self.has_more_than(group, 1) {
                Entry::Jump(self.chain(group, level, was_inner))
            } else {
                Entry::Rules(rules)
            });
        }
        entries
    }

    /// Returns the chain for a range with several rules.
    ///
    /// On the first level an inner chain has the longest range that includes its rules: packets to
    /// other addresses meet the jumps of the dispatch chain only. On other levels the range is that
    /// of the leaf before the split, so that a split leaves the parent as it is.
    fn chain(&self, group: Prefix, level: u8, was_inner: &dyn Fn(Prefix) -> bool) -> TreeChain {
        let spread = self.spread(group);
        let inner = if level == 1 { spread } else { group };
        let can_split = level < MOST_LEVELS && !spread.is_single();
        let is_inner = can_split
            && (self.has_more_than(group, LEAF_RULES)
                || (self.has_more_than(group, LEAF_RULES / 2) && was_inner(inner)));
        let (range, kind) = if is_inner {
            (inner, TreeChainKind::Inner)
        } else {
            (group, TreeChainKind::Leaf)
        };
        TreeChain { range, kind, level }
    }

    /// Returns the longest range of a level that includes all rules of a range.
    fn spread(&self, range: Prefix) -> Prefix {
        let mut within = self.routed.range(range.first()..=range.last());
        let first = within.next().map(|(destination, _)| *destination);
        let last = within.next_back().map(|(destination, _)| *destination);
        match (first, last) {
            (Some(first), Some(last)) => first.common(last),
            (Some(only), None) => only,
            (None, _) => range,
        }
    }

    fn has_more_than(&self, range: Prefix, limit: usize) -> bool {
        let mut rest = limit;
        for (_, rules) in self.within(range) {
            match rest.checked_sub(rules.len()) {
                Some(left) => rest = left,
                None => return true,
            }
        }
        false
    }

    fn within(&self, range: Prefix) -> impl Iterator<Item = (&Prefix, &Vec<RulePosition>)> {
        self.routed.range(range.first()..=range.last())
    }
}
