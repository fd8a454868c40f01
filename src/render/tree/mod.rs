//! Dispatch trees: dispatch chains in which a packet traverses about as many rules with 50,000
//! Services as with 100.
//!
//! In a *flat* dispatch chain the first packet of each connection traverses the rules of all
//! Services until one matches. In a tree, the dispatch chain is the *root*: it holds jumps for
//! prefixes of destinations. Their targets are *inner* chains, with jumps for longer prefixes, or
//! *leaves*, with the same rules as in a flat chain. Prefixes in one chain do not overlap, and
//! rules of one destination stay together in their order: the same rules match a packet as in a
//! flat chain.
//!
//! A prefix is the first bits of a destination: of an IP address, or of protocol (3 bits) and
//! NodePort (16 bits). The prefixes in a chain are three bits longer than its own.
//!
//! `thresholds` decides which dispatch chains are trees. `rules` holds the rules by destination and
//! decides the shape of a tree; `dispatch_tree` compares it with the recorded chains and renders
//! those that differ. `other_form` arranges a whole ruleset that was read, as a tree or flat.

mod dispatch_tree;
mod other_form;
mod rules;
mod thresholds;

#[cfg(test)]
mod tests;

pub(crate) use dispatch_tree::{DispatchTree, TreeChanges, TreeExtent};
pub(crate) use other_form::in_other_form;
pub use other_form::with_trees;
pub use thresholds::TreeThresholds;
