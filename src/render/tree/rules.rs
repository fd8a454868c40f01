//! Rules of one dispatch chain by destination, and the shape of the tree that they make.
//!
//! The shape is a function of the rules and of the chains that are there already: rules that are
//! divided between chains get into one leaf at half the number that splits a leaf, so that one
//! Service that comes and goes does not split and merge a leaf each time.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::ops::Bound::{Excluded, Unbounded};

use crate::model::ServiceName;
use crate::render::service::DispatchRule;
use crate::ruleset::Prefix;

/// Maximum size of a leaf; a larger one is split, unless all of its rules have one destination.
///
/// A leaf is written whole. With these sizes, a change that splits it writes less than 2 KB.
const LEAF: LeafSize = LeafSize {
    rules: 8,
    bytes: 1_200,
};

/// Maximum depth of a tree, the root not counted. Leaves at this depth are not split, however many
/// rules they have. Cluster IPs in one or two ranges make no leaf that deep. External IPs can: a
/// few that were chosen for it, each with some more bits in common with the others, make a chain of
/// their own for every three bits.
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
    /// Rules with a single destination, by that destination.
    single: BTreeMap<Prefix, RulesOfDestination>,
    /// Rules that match several destinations, such as all addresses of the node, and those of which
    /// the destination is unknown. They stay in the root.
    several_or_unknown: BTreeSet<RuleReference>,
}

#[derive(Debug, Clone, Default)]
struct RulesOfDestination {
    /// Sorted by Service and index.
    references: Vec<RuleReference>,
    /// Length of the rules without `-A CHAIN`.
    bytes: usize,
}

/// Size of a leaf, or of the rules of a prefix.
#[derive(Debug, Clone, Copy, Default)]
struct LeafSize {
    rules: usize,
    /// Length of the rules without `-A CHAIN`.
    bytes: usize,
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
                let rules = self.single.entry(destination).or_default();
                if let Err(at) = rules.references.binary_search(&reference) {
                    // Most destinations have one rule: room for four would be most of the memory.
                    rules.references.reserve_exact(1);
                    rules.references.insert(at, reference);
                    rules.bytes += rule.text.len();
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
        if let Some(rules) = self.single.get_mut(&destination)
            && let Ok(at) = rules.references.binary_search(reference)
        {
            rules.references.remove(at);
            rules.bytes -= rule.text.len();
            if rules.references.is_empty() {
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
        let roots = self.roots();
        roots
            .flat_map(|root| Division::of(self, root, 1, recorded))
            .collect()
    }

    /// Returns the empty prefix of cluster IPs, of external IPs and of ports, each if it has rules:
    /// the root divides each kind separately.
    fn roots(&self) -> impl Iterator<Item = Prefix> {
        let root = |(destination, _): (&Prefix, &_)| destination.root();
        iter::successors(self.single.iter().next().map(root), move |before| {
            let mut after = self.single.range((Excluded(before.last()), Unbounded));
            after.next().map(root)
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
                rules.map(RulesOfDestination::part).collect()
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
    /// addresses traverse the jumps of the root only. When a rule is removed, that prefix may
    /// become longer; the rules were divided if any shorter one has an inner chain. A deeper chain
    /// keeps the prefix that it had as a leaf, so that a split leaves its parent unchanged.
    fn chain(
        &self,
        (prefix, size): (Prefix, LeafSize),
        depth: u8,
        recorded: RecordedKind<'_>,
    ) -> TreeChain {
        let common = self.common_prefix(prefix);
        let inner = if depth == 1 { common } else { prefix };
        let was_inner = || {
            let mut possible = inner.shortened_to(prefix);
            possible.any(|prefix| recorded(prefix) == Some(TreeChainKind::Inner))
        };
        let can_split = depth < MAX_TREE_DEPTH && !common.is_single();
        let is_inner = can_split && !size.fits_leaf(was_inner);
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

    /// Returns the size of the rules of a prefix, or of some of them that are too many for a leaf.
    fn size(&self, prefix: Prefix) -> LeafSize {
        let mut size = LeafSize::default();
        for rules in self.within(prefix) {
            size.rules += rules.references.len();
            size.bytes += rules.bytes;
            if !size.is_within(LEAF) {
                break;
            }
        }
        size
    }

    fn within(&self, prefix: Prefix) -> impl Iterator<Item = &RulesOfDestination> {
        let within = self.single.range(prefix.first()..=prefix.last());
        within.map(|(_, rules)| rules)
    }
}

impl RulesOfDestination {
    fn part(&self) -> ChainPart<'_> {
        ChainPart::Rules(&self.references)
    }
}

impl LeafSize {
    /// Reports whether rules of this size get into one leaf.
    fn fits_leaf(self, were_divided: impl FnOnce() -> bool) -> bool {
        let half = Self {
            rules: LEAF.rules / 2,
            bytes: LEAF.bytes / 2,
        };
        self.is_within(half) || (self.is_within(LEAF) && !were_divided())
    }

    const fn is_within(self, limit: Self) -> bool {
        self.rules <= limit.rules && self.bytes <= limit.bytes
    }
}

/// Division of the rules of the root or of an inner chain between its parts, by up to three bits of
/// their destinations: in the root by all three, in an inner chain by one bit at a time until the
/// rules of a prefix fit into a leaf. A single rule is a part of its own.
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
        let size = self.rules.size(prefix);
        if size.rules <= 1 {
            let rules = self.rules.within(prefix);
            self.parts.extend(rules.map(RulesOfDestination::part));
        } else if prefix.len == self.common.child_len() {
            let chain = self.rules.chain((prefix, size), depth, self.recorded);
            self.parts.push(ChainPart::Jump(chain));
        } else if prefix != self.common && self.is_leaf(prefix, size) {
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
    /// leaf. Never in the root: its inner chains have the common prefix of their rules in their
    /// names, so that a lookup of the prefixes here would not find that rules were divided.
    fn is_leaf(&self, prefix: Prefix, size: LeafSize) -> bool {
        self.target_depth > 1 && size.fits_leaf(|| self.was_divided(prefix))
    }

    /// Reports whether the rules of a prefix are in several chains in the kernel.
    fn was_divided(&self, prefix: Prefix) -> bool {
        let is_in_kernel = |half| (self.recorded)(half).is_some() || self.was_divided(half);
        prefix.len < self.common.child_len() && prefix.halves().into_iter().any(is_in_kernel)
    }
}
