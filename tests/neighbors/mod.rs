//! A node on which other programs have rules: small ones in the shape of each program's.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly"
)]

mod beside;
mod explain;
mod scene;
