//! What a change costs, in instructions: the same in every cluster, and within one Service no more
//! than in proportion to its size.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails loudly, prints what it counted, and runs programs; it shares files"
)]

mod callgrind;
#[path = "../support/cluster.rs"]
mod cluster;
mod clusters;
#[path = "../support/left_out.rs"]
mod left_out;
mod node;
mod services;
#[path = "../support/tell.rs"]
mod tell;
