//! Decides which conntrack entries of UDP are stale after a sync.
//!
//! The kernel evaluates rules for the first packet of a connection, and sends all others where
//! that one went, until the connection is idle for some time. TCP clients notice a dead endpoint;
//! UDP clients do not. [`host`](crate::host) deletes the entries that are found here.
//!
//! # Invariants
//!
//! - Only UDP, and only destinations of Services that changed: all other entries stay.
//! - A later sync overrides an earlier one for the same destination.
//!
//! # Source
//!
//! Upstream: pkg/proxy/conntrack/cleanup.go, `CleanStaleEntries` (v1.37)

mod stale;

#[cfg(test)]
mod tests;

pub use stale::{Filter, Flow, stale_candidates};
pub(crate) use stale::{StaleCandidates, SweepRequest, all_candidates};
