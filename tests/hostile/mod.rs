//! Untrusted input of every kind that the program reads: objects of tenants, replies of servers,
//! files.
//!
//! `PROPTEST_CASES=1000000` tries more of it, other cases each time.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "what the tests share may fail, too, and runs programs"
)]

#[path = "../support/hostile.rs"]
mod input;

mod entitled;
mod files;
mod kernel;
mod objects;
mod pieces;
mod play;
mod texts;
