//! Nodes of a cluster, reached through its API server: pages of deltaproxy by port-forward, rules
//! of another proxy by exec in its Pod.
//!
//! A node may be slow or gone: each request to one has a limit, and a failure names the node and
//! the next step.

mod agreement;
mod client;

pub(super) use agreement::{Agreement, Held, MAX_NAMES, disagreement, print_disagreements};
pub(super) use client::{NodeAnswer, NodeProblem, block_on, for_each_bounded};
