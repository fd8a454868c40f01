//! Remembers what changed since the last sync that reached the kernel.
//!
//! Apart from [`render`](crate::render) so that "what changed" can be tested without rules, and
//! rules without history.
//!
//! # Invariants
//!
//! - A Service is dirty exactly if its state differs from the last *settled* one. A change
//!   followed by its reverse leaves nothing behind.
//! - A slice belongs to one Service at a time, the one its label names now.
//! - Nothing is settled until the shell says so: a failed sync loses nothing.
//!
//! # Source
//!
//! Upstream: pkg/proxy/servicechangetracker.go, pkg/proxy/endpointschangetracker.go (v1.36)
//! KEP: kep.k8s.io/3453

mod allowances;
mod dirty;
mod frontends;
mod listing;
mod namespace_limit;
mod objects;
mod overrides;
mod queue;
mod track;
mod waiting;

#[cfg(test)]
mod tests;

pub use overrides::{Override, OverrideClaims};
pub use queue::ChangeQueue;
pub use track::{Settled, Tracker};
pub use waiting::Waiting;
