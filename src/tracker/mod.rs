//! Tracks the state of all Services of one family, and the Services that changed since the last
//! sync that was applied.
//!
//! # Invariants
//!
//! - A Service is dirty exactly if its state differs from the last *applied* one, which the kernel
//!   has. A change followed by its reverse leaves no Service dirty.
//! - A slice belongs to one Service at a time, that of its label.
//! - Besides a reverse change, only the methods of [`Tracker`] that begin with `mark_` make
//!   Services clean: a failed sync loses no change.
//!
//! # Source
//!
//! Upstream: pkg/proxy/servicechangetracker.go, pkg/proxy/endpointschangetracker.go (v1.37)
//! KEP: kep.k8s.io/3453

mod allowances;
mod dirty;
mod frontends;
mod queue;
mod track;

#[cfg(test)]
mod tests;

pub(crate) use dirty::{AppliedChanges, UnappliedObjects};
pub(crate) use queue::ChangeQueue;
pub use track::Tracker;
pub(crate) use track::{Override, OverrideClaims};
