//! The image: its contents, and containers of it on a node of a real API server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails loudly, and runs programs"
)]

mod container;
mod contents;
mod dockerfile;
mod memory;
mod node;
