//! The monitoring pack, `deploy/monitoring`: its files agree with each other and with the docs, its
//! alerts pass their tests, and a real Prometheus finds data for every panel.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails loudly, and runs programs"
)]

mod files;
mod scraped;
