//! Dispatch trees: dispatch chains in which a packet traverses about as many rules with 50,000
//! Services as with 100.
//!
//! In a *flat* dispatch chain the first packet of each connection traverses the rules of all
//! Services until one matches. In a tree, the dispatch chain is the *root*: it holds jumps for
//! prefixes of destinations. Their targets are *inner* chains, with jumps for longer prefixes, or
//! *leaves*, with the same rules as in a flat chain. Where only one rule has a prefix, an inner
//! chain may hold that rule in place of a jump. A destination with many rules has a leaf of its
//! own, to which other leaves jump as well. The root begins with the rules that match several or
//! unknown destinations.
//!
//! Destinations are of three kinds: cluster IPs, external IPs (those of load balancers included),
//! and protocols with NodePorts. Each kind has jumps and chains of its own, because external IPs
//! that a user has chosen can make the chains for them deep. The same
//! rules match a packet as in a flat chain: those of one destination stay together in their order,
//! and those of different Services never match the same packet, because the tracker selects one
//! owner of each address and port. (A rule for a NodePort and one for an external IP that is an
//! address of the node may both reject a packet: in which of the two orders, upstream leaves open.)
//!
//! A prefix is the first bits of a destination: of an IP address, or of protocol (4 bits) and
//! NodePort (16 bits). The root divides its rules by the first four bits. An inner chain skips
//! the bits that all of its rules have in common, rounded down to a multiple of four, and divides
//! by one to four further bits: by fewer where the rules then fit into one leaf. An inner chain
//! that the root jumps to has that common prefix in its name and in the jump to it.
//!
//! Names of tree chains begin like those of Service chains, so that a kube-proxy that takes over
//! deletes those of nat as unknown Service chains: see [`ruleset`](crate::ruleset).
//!
//! `thresholds` decides which dispatch chains are trees. `rules` holds the rules by destination and
//! decides the shape of a tree; `dispatch_tree` holds it with the recorded chains, and `update`
//! renders those that differ. `other_form` arranges a whole ruleset that was read, as a tree or
//! flat.

mod dispatch_tree;
mod other_form;
mod rules;
mod thresholds;
mod update;

#[cfg(test)]
mod tests;

pub(crate) use dispatch_tree::DispatchTree;
pub(crate) use other_form::in_other_form;
pub use other_form::with_trees;
pub use thresholds::TreeThresholds;
pub(crate) use update::{TreeChanges, TreeExtent, TreeUpdate, WrittenChain};
