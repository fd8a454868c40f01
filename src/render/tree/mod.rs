//! Dispatch trees: dispatch chains divided by destination, so that a packet traverses about as many
//! rules whether there are 100 Services or 50,000.
//!
//! In a *flat* dispatch chain the first packet of each connection traverses the rules of all
//! Services until one matches. In a tree, the dispatch chain is the *root*: it holds jumps for
//! prefixes of destinations. Their targets are *inner* chains, with jumps for longer prefixes, or
//! *leaves*, with the same rules as in a flat chain. Where only one rule has a prefix, an inner
//! chain may hold that rule in place of a jump. A destination with many rules has a leaf of its
//! own. One chain jumps to that: the root, an inner chain or another leaf.
//!
//! Destinations are of three kinds: cluster IPs, external IPs (those of load balancers included),
//! and protocols with NodePorts. Each kind has jumps and chains of its own, because external IPs
//! that a user has chosen can make the chains for them deep.
//!
//! A packet matches the same rules as in a flat chain. Rules of one destination stay together, in
//! their order. Of our rules with different destinations a packet matches one only, with an
//! exception in `KUBE-EXTERNAL-SERVICES`: a packet to an address of the node that is also an
//! external IP may match a rule for the address and one for the NodePort. Both drop or reject it,
//! and upstream does not order them either. Rules of different Services never have the same
//! destination, protocol and port: the tracker selects one owner of each.
//!
//! A prefix is the first bits of a destination: of an IP address, or of protocol (4 bits) and
//! NodePort (16 bits). The root divides its rules by the first four bits. An inner chain skips
//! the bits that all of its rules have in common, rounded down to a multiple of four, and divides
//! its rules by the next bits, one at a time, at most four. A half whose rules fit into one leaf is
//! not divided further, so that the jumps of one chain may have prefixes of different lengths.
//! An inner chain that the root jumps to has that common prefix in its name (a hash for IPv6) and
//! in the jump to it.
//!
//! Names of tree chains begin like those of Service chains, so that a kube-proxy that takes over
//! deletes those of nat as unknown Service chains: see [`ruleset`](crate::ruleset).
//!
//! The options decide which dispatch chains are trees. `dispatch_tree` holds the rules by
//! destination and the recorded chains, and renders those that differ; `shape` decides which chains
//! a tree has.

mod dispatch_tree;
mod shape;

#[cfg(test)]
mod tests;

pub(crate) use dispatch_tree::{DispatchTree, TreeUpdate};
