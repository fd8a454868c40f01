//! Shape of a tree: the chains that the rules of a dispatch chain make.
//!
//! The shape is a function of the rules and of the chains that are there already: rules that were
//! divided mostly merge into one leaf at half the size that splits a leaf, so that one Service that
//! comes and goes does not split and merge it each time. See `was_inner` and `was_divided`.

use std::iter;
use std::ops::Bound::{Excluded, Unbounded};

use super::dispatch_tree::{ChainPart, DispatchTree, RulesOfDestination, TreeChain};
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

/// Size of a leaf, or of the rules of a prefix.
#[derive(Debug, Clone, Copy, Default)]
struct LeafSize {
    rules: usize,
    /// Length of the rules without `-A CHAIN`.
    bytes: usize,
}

impl DispatchTree {
    /// Returns the content of the root, without the rules of several or unknown destinations. Each
    /// of its prefixes with rules has a chain, however few they are.
    pub(super) fn content_of_root(&self) -> Vec<ChainPart> {
        let mut parts = Vec::new();
        for root in self.roots() {
            self.divide(root, (root, 1), &mut parts);
        }
        parts
    }

    /// Returns the empty prefix of cluster IPs, of external IPs and of ports, each if it has rules:
    /// the root divides each kind separately.
    fn roots(&self) -> impl Iterator<Item = Prefix> {
        let root = |(destination, _): (&Prefix, &_)| destination.root();
        iter::successors(self.rules.iter().next().map(root), move |before| {
            let mut after = self.rules.range((Excluded(before.last()), Unbounded));
            after.next().map(root)
        })
    }

    /// Returns the content of a tree chain.
    pub(super) fn content_of(&self, chain: TreeChain) -> Vec<ChainPart> {
        let depth = chain.depth + 1;
        if chain.is_inner {
            let common = self.common_prefix(chain.prefix);
            let mut parts = Vec::new();
            self.divide(common, (common, depth), &mut parts);
            return parts;
        }
        let rules = self.within(chain.prefix);
        let parts = rules.map(|(destination, rules)| {
            if chain.prefix.is_single() {
                ChainPart::Rules(*destination)
            } else {
                rules.part_of_shared_chain(*destination, depth)
            }
        });
        parts.collect()
    }

    /// Adds the parts of the root or of an inner chain for the rules of a prefix, which are divided
    /// by up to four bits of their destinations: in the root by all four, in an inner chain by one
    /// bit at a time until the rules of a prefix fit into a leaf, or there is only one.
    ///
    /// `common` is the prefix after which the rules are divided: of the root the empty one, of an
    /// inner chain that which all of its rules have in common. `depth` is that of the chains that
    /// it jumps to.
    fn divide(&self, prefix: Prefix, (common, depth): (Prefix, u8), parts: &mut Vec<ChainPart>) {
        let size = self.size(prefix);
        if size.rules == 0 {
            return;
        }
        let (is_root, is_fourth_bit) = (depth == 1, prefix.len >= common.child_len());
        // An inner chain may have the only rule of a prefix itself. Not the root, which divides by
        // all four bits, and not at the fourth bit: a chain with sixteen rules would take more than
        // 2 KB.
        let can_have_rules = !is_root && !is_fourth_bit;
        // Never in the root: `was_divided` looks up prefixes, and would not find an inner chain of
        // the root, which is recorded under a longer one, the common prefix of its rules.
        let ends_early =
            || !is_root && prefix != common && size.fits_leaf(|| self.was_divided(prefix, common));
        if let Some((destination, rules)) = self.only(prefix, size)
            && (can_have_rules || rules.have_own_chain())
        {
            parts.push(rules.part_of_shared_chain(destination, depth));
        } else if is_fourth_bit {
            parts.push(ChainPart::Jump(self.chain(prefix, size, depth)));
        } else if ends_early() {
            parts.push(ChainPart::Jump(TreeChain {
                prefix,
                is_inner: false,
                depth,
            }));
        } else {
            for half in prefix.halves() {
                self.divide(half, (common, depth), parts);
            }
        }
    }

    /// Reports whether the rules of a prefix were divided: the kernel has a chain for a part of it.
    /// Chains of single destinations do not count: one with many rules has its own anyway.
    fn was_divided(&self, prefix: Prefix, common: Prefix) -> bool {
        let has_chain = |half: Prefix| !half.is_single() && self.has_chain_for(half);
        let is_in_kernel = |half| has_chain(half) || self.was_divided(half, common);
        prefix.len < common.child_len() && prefix.halves().into_iter().any(is_in_kernel)
    }

    /// Returns the chain for a prefix.
    ///
    /// An inner chain that the root jumps to has the common prefix of its rules: packets to other
    /// addresses traverse the jumps of the root only. The removal of a rule can make that prefix
    /// longer, so `was_inner` also looks for inner chains with shorter ones. A deeper chain keeps
    /// the prefix that it had as a leaf, so that its split leaves its parent as it is.
    fn chain(&self, prefix: Prefix, size: LeafSize, depth: u8) -> TreeChain {
        let common = self.common_prefix(prefix);
        let inner = if depth == 1 { common } else { prefix };
        let was_inner = || {
            let mut possible = inner.shortened_to(prefix);
            possible.any(|prefix| self.has_inner_chain_for(prefix))
        };
        let can_split = depth < MAX_TREE_DEPTH && !common.is_single();
        let is_inner = can_split && !size.fits_leaf(was_inner);
        TreeChain {
            prefix: if is_inner { inner } else { prefix },
            is_inner,
            depth,
        }
    }

    /// Returns the longest prefix, in steps of four bits, that all rules of a prefix have in
    /// common.
    fn common_prefix(&self, prefix: Prefix) -> Prefix {
        let mut within = self.rules.range(prefix.first()..=prefix.last());
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
        self.rules.range(prefix.first()..=prefix.last())
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
                is_inner: false,
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
