//! What a change costs, in instructions: the same in every cluster, and within one Service no more
//! than in proportion to its size.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails loudly, prints what it counted, and runs programs"
)]

mod callgrind;
#[path = "../support/cluster.rs"]
mod cluster;
mod clusters;
mod node;
mod services;
