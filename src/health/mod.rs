//! Whether this node's rules are up to date.
//!
//! Apart so that the rule deciding it can be tested by the second, and so that load balancers ask
//! something that does not wait for a sync.

mod server;
mod state;

#[cfg(test)]
#[path = "tests/recorded.rs"]
mod recorded;

pub use server::{Health, HealthPages};
pub use state::{FamilyReport, HealthState, NodeState, Report};
