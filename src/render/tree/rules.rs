//! Rules of one dispatch chain by destination, and the shape of the tree that they make.
//!
//! The shape is a function of the rules and of the chains that are there already: rules that are
//! divided between chains get into one leaf at half the number that splits a leaf, so that one
//! Service that comes and goes does not split and merge a leaf each time.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::ServiceName;
use crate::render::service::DispatchRule;
use crate::ruleset::Prefix;

/// Maximum rules of a leaf; with more it is split.
///
/// A leaf is written whole: with eight rules of about 165 bytes, a change that splits it writes
/// less than 2 KB.
pub(super) const LEAF_RULES: usize = 8;

/// Maximum depth of a tree, the root not counted. Leaves at this depth are not split, however many
/// rules they have. Addresses far from each other, such as a few external IPs, make leaves of IPv4
/// that deep.
///
/// The nft backend rejects a rule that makes more than 15 nested jumps possible (seen with 1.8.9).
/// The deepest path makes six besides the tree: to `KUBE-SERVICES`, `KUBE-FW`, `KUBE-EXT`,
/// `KUBE-SVC`, `KUBE-SEP` and `KUBE-MARK-MASQ`. With seven, two stay free for chains of other
/// programs on the way; with nine, one such chain would make every restore fail. NodePorts need
/// no more than seven, as their destinations have 19 bits, and each chain decides three.
const MAX_TREE_DEPTH: u8 = 7;

/// Reference to a dispatch rule of the applied state: its Service, and its index among the
/// dispatch rules of that Service.
pub(super) type RuleReference = (ServiceName, u32);

/// Rules of one dispatch chain by destination.
#[derive(Debug, Clone, Default)]
pub(super) struct RulesByDestination {
    /// Rules with a single destination, by that destination; those of one destination are sorted by
    /// Service and index.
    single: BTreeMap<Prefix, Vec<RuleReference>>,
    /// Rules that match several destinations, such as all addresses of the node, and those of which
    /// the destination is unknown. They stay in the root.
    several_or_unknown: BTreeSet<RuleReference>,
}

/// Kind of a tree chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeChainKind {
    /// Holds one rule for each longer prefix: the jump to the chain with the rules of that prefix,
    /// or the rule of a Service itself if the prefix has only one.
    Inner,
    /// Holds rules of Services only.
    Leaf,
}

/// Desired tree chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeChain {
    pub(super) prefix: Prefix,
    pub(super) kind: TreeChainKind,
    /// Number of jumps from the root to this chain, at least 1.
    pub(super) depth: u8,
}

/// Lookup of a tree chain in the kernel, by its prefix.
pub(super) type RecordedKind<'f> = &'f dyn Fn(Prefix) -> Option<TreeChainKind>;

/// Part of the content of a tree chain or of the root.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChainPart<'r> {
    /// Rules of Services.
    Rules(&'r [RuleReference]),
    /// Jump to a tree chain, for the packets whose destination has its prefix.
    Jump(TreeChain),
}

impl RulesByDestination {
    pub(super) fn add(&mut self, rule: &DispatchRule, reference: RuleReference) {
        match Prefix::of(rule.destination) {
            Some(destination) => {
                // Most destinations have one rule: room for four would be most of the memory.
                let rules = self.single.entry(destination);
                let rules = rules.or_insert_with(|| Vec::with_capacity(1));
                if let Err(at) = rules.binary_search(&reference) {
                    rules.insert(at, reference);
                }
            }
            None => drop(self.several_or_unknown.insert(reference)),
        }
    }

    pub(super) fn remove(&mut self, rule: &DispatchRule, reference: &RuleReference) {
        let Some(destination) = Prefix::of(rule.destination) else {
            self.several_or_unknown.remove(reference);
            return;
        };
        if let Some(rules) = self.single.get_mut(&destination) {
            rules.retain(|known| known != reference);
            if rules.is_empty() {
                self.single.remove(&destination);
            }
        }
    }

    /// Returns the rules of several or unknown destinations, which stay in the root.
    pub(super) fn several_or_unknown(&self) -> impl Iterator<Item = &RuleReference> {
        self.several_or_unknown.iter()
    }

    /// Returns the content of the root, without the rules of [`Self::several_or_unknown`]. Each of
    /// its prefixes with several rules has a chain, however few they are.
    pub(super) fn of_root(&self, recorded: RecordedKind<'_>) -> Vec<ChainPart<'_>> {
        let first = self.single.keys().next();
        first.map_or_else(Vec::new, |first| {
            Division::of(self, first.root(), 1, recorded)
        })
    }

    /// Returns the content of a tree chain.
    pub(super) fn content_of(
        &self,
        chain: TreeChain,
        recorded: RecordedKind<'_>,
    ) -> Vec<ChainPart<'_>> {
        match chain.kind {
            TreeChainKind::Leaf => {
                let rules = self.within(chain.prefix);
                rules.map(|(_, rules)| ChainPart::Rules(rules)).collect()
            }
            TreeChainKind::Inner => {
                let common = self.common_prefix(chain.prefix);
                Division::of(self, common, chain.depth + 1, recorded)
            }
        }
    }

    /// Returns the chain for a prefix with several rules.
    ///
    /// An inner chain that the root jumps to has the common prefix of its rules: packets to other
    /// addresses traverse the jumps of the root only. A deeper one keeps the prefix that it had as
    /// a leaf, so that a split leaves its parent unchanged.
    fn chain(
        &self,
        (prefix, count): (Prefix, usize),
        depth: u8,
        recorded: RecordedKind<'_>,
    ) -> TreeChain {
        let common = self.common_prefix(prefix);
        let inner = if depth == 1 { common } else { prefix };
        let was_inner = || recorded(inner) == Some(TreeChainKind::Inner);
        let can_split = depth < MAX_TREE_DEPTH && !common.is_single();
        let is_inner = can_split && !fits_leaf(count, was_inner);
        let (prefix, kind) = if is_inner {
            (inner, TreeChainKind::Inner)
        } else {
            (prefix, TreeChainKind::Leaf)
        };
        TreeChain {
            prefix,
            kind,
            depth,
        }
    }

    /// Returns the longest prefix, in steps of three bits, that all rules of a prefix have in
    /// common.
    fn common_prefix(&self, prefix: Prefix) -> Prefix {
        let mut within = self.single.range(prefix.first()..=prefix.last());
        let first = within.next().map(|(destination, _)| *destination);
        let last = within.next_back().map(|(destination, _)| *destination);
        match (first, last) {
            (Some(first), Some(last)) => first.common(last),
            (Some(only), None) => only,
            (None, _) => prefix,
        }
    }

    /// Counts the rules of a prefix, up to one more than a leaf has.
    fn count(&self, prefix: Prefix) -> usize {
        let mut count = 0;
        for (_, rules) in self.within(prefix) {
            count += rules.len();
            if count > LEAF_RULES {
                return LEAF_RULES + 1;
            }
        }
        count
    }

    fn within(&self, prefix: Prefix) -> impl Iterator<Item = (&Prefix, &Vec<RuleReference>)> {
        self.single.range(prefix.first()..=prefix.last())
    }
}

/// Reports whether this number of rules gets into one leaf.
fn fits_leaf(count: usize, were_divided: impl FnOnce() -> bool) -> bool {
    count <= LEAF_RULES / 2 || (count <= LEAF_RULES && !were_divided())
}

/// Division of the rules of the root or of an inner chain between its parts: by one bit of their
/// destinations at a time, up to three, until those of a prefix fit into a leaf.
struct Division<'r, 'f> {
    rules: &'r RulesByDestination,
    /// Prefix after which the rules are divided: of the root the empty one, of an inner chain that
    /// which all of its rules have in common.
    common: Prefix,
    /// Depth of the chains that it jumps to.
    target_depth: u8,
    recorded: RecordedKind<'f>,
    parts: Vec<ChainPart<'r>>,
}

impl<'r, 'f> Division<'r, 'f> {
    fn of(
        rules: &'r RulesByDestination,
        common: Prefix,
        target_depth: u8,
        recorded: RecordedKind<'f>,
    ) -> Vec<ChainPart<'r>> {
        let mut division = Self {
            rules,
            common,
            target_depth,
            recorded,
            parts: Vec::new(),
        };
        division.divide(common);
        division.parts
    }

    /// Adds the parts for the rules of a prefix.
    fn divide(&mut self, prefix: Prefix) {
        let depth = self.target_depth;
        let count = self.rules.count(prefix);
        if count <= 1 {
            let rules = self.rules.within(prefix);
            self.parts
                .extend(rules.map(|(_, rules)| ChainPart::Rules(rules)));
        } else if prefix.len == self.common.child_len() {
            let chain = self.rules.chain((prefix, count), depth, self.recorded);
            self.parts.push(ChainPart::Jump(chain));
        } else if prefix != self.common && self.is_leaf(prefix, count) {
            self.parts.push(ChainPart::Jump(TreeChain {
                prefix,
                kind: TreeChainKind::Leaf,
                depth,
            }));
        } else {
            prefix
                .halves()
                .into_iter()
                .for_each(|half| self.divide(half));
        }
    }

    /// Reports whether the rules of a prefix one or two bits longer than `common` get into one
    /// leaf. Never in the root: an inner chain there has the common prefix of its rules in its
    /// name, by which it is not found here.
    fn is_leaf(&self, prefix: Prefix, count: usize) -> bool {
        self.target_depth > 1 && fits_leaf(count, || self.was_divided(prefix))
    }

    /// Reports whether the rules of a prefix are in several chains in the kernel.
    fn was_divided(&self, prefix: Prefix) -> bool {
        let is_in_kernel = |half| (self.recorded)(half).is_some() || self.was_divided(half);
        prefix.len < self.common.child_len() && prefix.halves().into_iter().any(is_in_kernel)
    }
}
