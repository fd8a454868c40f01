//! Which UDP flows would go elsewhere by the rules that are in the kernel now.
//!
//! Apart from the rules because the kernel asks these for the first packet of a flow only: where it
//! went, all others follow, for as long as both sides talk and some time after. TCP finds out that
//! nobody is there any more; UDP does not. What is decided here, [`host`](crate::host) does.
//!
//! # Invariants
//!
//! - Only UDP, and only destinations of Services that changed: every other flow lives on.
//! - What was not looked at yet can be added to: the newer word about a destination counts.
//!
//! # Source
//!
//! Upstream: pkg/proxy/conntrack/cleanup.go, `CleanStaleEntries` (v1.36)

mod flow;
mod left_behind;
mod suspects;

#[cfg(test)]
mod tests;

pub use flow::{Destination, Filter, Flow};
pub use left_behind::{all, left_behind};
pub use suspects::{Keep, Suspects};
