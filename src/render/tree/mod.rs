//! Dispatch trees: dispatch chains in which a packet meets about as many rules with 50,000 Services
//! as with 100.
//!
//! In a flat dispatch chain the first packet of each connection traverses the rules of all Services
//! until one matches. In a tree, the dispatch chain holds jumps on prefixes of destinations; they
//! lead to *inner* chains with jumps on longer prefixes, and these to *leaves* with the same rules
//! as in a flat chain. Ranges of one chain do not overlap, and rules of one destination stay
//! together in their order: a packet meets the same rules that match it as in a flat chain.
//!
//! `rules` holds the rules by destination and decides the shape; `dispatch_tree` compares the shape
//! with the recorded chains and writes those that differ.

mod dispatch_tree;
mod rules;

#[cfg(test)]
mod tests;

pub(crate) use dispatch_tree::{DispatchTree, TreeChanges, WriteExtent};
