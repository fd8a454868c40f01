//! Rules of one dispatch chain by destination, and the shape of the tree that they make.
//!
//! The shape is a function of the rules and of the chains that are there already: rules that were
//! divided mostly merge into one leaf at half the size that splits a leaf, so that one Service that
//! comes and goes does not split and merge it each time. See `was_inner` and `was_divided`.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::ops::Bound::{Excluded, Unbounded};

use crate::model::ServiceName;
use crate::render::service::DispatchRule;
use crate::ruleset::Prefix;

/// Maximum size of a leaf; a larger one is split.
///
/// A change that splits a leaf then writes less than 2 KB, to keep the partial restore of one
/// Service small. Each chain takes iptables 40 us in a full restore: 10,000 Services have 1,339
/// chains, where a limit of 8 rules made 2,321. A packet takes 10 ns for a rule.
const LEAF: LeafSize = LeafSize {
    rules: 12,
    bytes: 1_500,
};

/// Maximum size of the rules of one destination in a leaf that it shares. More have a chain of
/// their own, so that a change of another destination does not write them. Smaller than [`LEAF`],
/// to limit a leaf at the maximum depth, which is not split: to 16 times this with IPv4.
const DESTINATION: LeafSize = LeafSize {
    rules: 8,
    bytes: 1_200,
};

/// Size of a jump to the chain of one destination, as one of IPv6 has it.
const JUMP: LeafSize = LeafSize {
    rules: 1,
    bytes: 80,
};

/// Maximum depth of chains for prefixes, the root not counted. Leaves at this depth are not split.
/// With IPv4 they have at most sixteen addresses. Cluster IPs of one or two ranges do not get that
/// deep, as their common bits take no levels. With IPv6 a user can choose addresses of which each
/// level splits off only one; the rest shares a leaf, however many they are. The chain of a single
/// destination may be one level deeper.
///
/// The nft backend of iptables (1.8.9) rejects a rule that makes more than 15 nested jumps
/// possible. The deepest path makes six besides the tree: to `KUBE-SERVICES`, `KUBE-FW`,
/// `KUBE-EXT`, `KUBE-SVC`, `KUBE-SEP` and `KUBE-MARK-MASQ`. The tree makes at most eight, so that
/// one stays free for a chain of another program on the way.
const MAX_TREE_DEPTH: u8 = 7;

/// Reference to a dispatch rule: its Service, and its index among the dispatch rules of that
/// Service.
pub(super) type RuleReference = (ServiceName, u32);

/// Rules of one dispatch chain by destination.
#[derive(Debug, Clone, Default)]
pub(super) struct RulesByDestination {
    /// Rules with a single destination, by that destination.
    single: BTreeMap<Prefix, RulesOfDestination>,
    /// Rules that match several destinations, or of which the destination is unknown: of another
    /// proxy, in a ruleset that `other_form` arranges. They stay in the root.
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
    /// or the rule of a Service itself.
    Inner,
    /// Holds the rules of Services for a prefix, or jumps to the chains of single destinations.
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

/// Lookup of the kind of a tree chain in the kernel, by its prefix; `None`: there is no such chain.
pub(super) type KindLookup<'f> = &'f dyn Fn(Prefix) -> Option<TreeChainKind>;

/// Part of the content of a tree chain or of the root.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChainPart {
    /// Rules of one destination.
    Rules(Prefix),
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
                    // With more, room for twice as many: very many Services can share a
                    // destination.
                    if rules.references.len() < 4 {
                        rules.references.reserve_exact(1);
                    }
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

    /// Returns the rules of one destination.
    pub(super) fn of(&self, destination: Prefix) -> &[RuleReference] {
        self.single
            .get(&destination)
            .map_or(&[], |rules| &rules.references)
    }

    /// Returns the content of the root, without the rules of [`Self::several_or_unknown`]. Each of
    /// its prefixes with rules has a chain, however few they are.
    pub(super) fn of_root(&self, recorded: KindLookup<'_>) -> Vec<ChainPart> {
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
    pub(super) fn content_of(&self, chain: TreeChain, recorded: KindLookup<'_>) -> Vec<ChainPart> {
        match chain.kind {
            TreeChainKind::Leaf => {
                let rules = self.within(chain.prefix);
                let rules = rules.map(|(destination, rules)| {
                    if chain.prefix.is_single() {
                        ChainPart::Rules(*destination)
                    } else {
                        rules.part_of_shared_chain(*destination, chain.depth + 1)
                    }
                });
                rules.collect()
            }
            TreeChainKind::Inner => {
                let common = self.common_prefix(chain.prefix);
                Division::of(self, common, chain.depth + 1, recorded)
            }
        }
    }

    /// Returns the chain for a prefix.
    ///
    /// An inner chain that the root jumps to has the common prefix of its rules: packets to other
    /// addresses traverse the jumps of the root only. The removal of a rule can make that prefix
    /// longer, so `was_inner` also looks for inner chains with shorter ones. A deeper chain keeps
    /// the prefix that it had as a leaf, so that its split leaves its parent as it is.
    fn chain(
        &self,
        (prefix, size): (Prefix, LeafSize),
        depth: u8,
        recorded: KindLookup<'_>,
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

    /// Returns the longest prefix, in steps of four bits, that all rules of a prefix have in
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

    /// Returns the size that a leaf of this prefix would have; if it is too large, only a part.
    fn size(&self, prefix: Prefix) -> LeafSize {
        let mut size = LeafSize::default();
        for (_, rules) in self.within(prefix) {
            let of_destination = if rules.have_own_chain() {
                JUMP
            } else {
                rules.size()
            };
            size.rules += of_destination.rules;
            size.bytes += of_destination.bytes;
            if !size.is_within(LEAF) {
                break;
            }
        }
        size
    }

    /// Returns the destination of a prefix for which a leaf would hold a single rule, or a single
    /// jump to the chain of that destination.
    fn only(&self, prefix: Prefix, size: LeafSize) -> Option<(Prefix, &RulesOfDestination)> {
        let (destination, rules) = self.within(prefix).next()?;
        (size.rules == 1).then_some((*destination, rules))
    }

    fn within(&self, prefix: Prefix) -> impl Iterator<Item = (&Prefix, &RulesOfDestination)> {
        self.single.range(prefix.first()..=prefix.last())
    }
}

impl RulesOfDestination {
    fn size(&self) -> LeafSize {
        LeafSize {
            rules: self.references.len(),
            bytes: self.bytes,
        }
    }

    /// Reports whether the rules are too many for a leaf of several destinations.
    fn have_own_chain(&self) -> bool {
        !self.size().is_within(DESTINATION)
    }

    /// Returns its part of a chain with others: its rules, or a jump to its chain at `depth`.
    fn part_of_shared_chain(&self, destination: Prefix, depth: u8) -> ChainPart {
        if self.have_own_chain() {
            ChainPart::Jump(TreeChain {
                prefix: destination,
                kind: TreeChainKind::Leaf,
                depth,
            })
        } else {
            ChainPart::Rules(destination)
        }
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

/// Division of the rules of the root or of an inner chain between its parts, by up to four bits of
/// their destinations: in the root by all four, in an inner chain by one bit at a time until the
/// rules of a prefix fit into a leaf, or there is only one.
struct Division<'r, 'f> {
    rules: &'r RulesByDestination,
    /// Prefix after which the rules are divided: of the root the empty one, of an inner chain that
    /// which all of its rules have in common.
    common: Prefix,
    /// Depth of the chains that it jumps to.
    target_depth: u8,
    recorded: KindLookup<'f>,
    parts: Vec<ChainPart>,
}

impl<'r, 'f> Division<'r, 'f> {
    fn of(
        rules: &'r RulesByDestination,
        common: Prefix,
        target_depth: u8,
        recorded: KindLookup<'f>,
    ) -> Vec<ChainPart> {
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
        if size.rules == 0 {
            return;
        }
        let can_have_rules = self.can_have_rules(prefix);
        if let Some((destination, rules)) = self.rules.only(prefix, size)
            && (can_have_rules || rules.have_own_chain())
        {
            self.parts
                .push(rules.part_of_shared_chain(destination, depth));
        } else if prefix.len == self.common.child_len() {
            let chain = self.rules.chain((prefix, size), depth, self.recorded);
            self.parts.push(ChainPart::Jump(chain));
        } else if prefix != self.common && self.ends_early(prefix, size) {
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

    /// Reports whether an inner chain may have the only rule of a prefix itself. Not the root,
    /// which divides by all four bits, and not at the fourth bit: a chain with sixteen rules would
    /// take more than 2 KB.
    fn can_have_rules(&self, prefix: Prefix) -> bool {
        self.target_depth > 1 && prefix.len < self.common.child_len()
    }

    /// Reports whether division ends at a prefix before the fourth bit, with a leaf. Never in the
    /// root: `was_divided` looks up prefixes, and would not find an inner chain of the root, which
    /// is recorded under a longer one, the common prefix of its rules.
    fn ends_early(&self, prefix: Prefix, size: LeafSize) -> bool {
        self.target_depth > 1 && size.fits_leaf(|| self.was_divided(prefix))
    }

    /// Reports whether the rules of a prefix were divided: the kernel has a chain for a part of it.
    /// Chains of single destinations do not count: one with many rules has its own anyway.
    fn was_divided(&self, prefix: Prefix) -> bool {
        let has_chain = |half: Prefix| !half.is_single() && (self.recorded)(half).is_some();
        let is_in_kernel = |half| has_chain(half) || self.was_divided(half);
        prefix.len < self.common.child_len() && prefix.halves().into_iter().any(is_in_kernel)
    }
}
