//! Health of the process, and the health check node ports of Services.
//!
//! No answer waits for a sync.

mod node_port_checks;
mod pages;
mod state;
mod watchdog;

pub(crate) use node_port_checks::{CheckAddresses, CheckChanges, CheckServerContext, CheckServers};
pub(crate) use pages::{Health, HealthPages};
#[cfg(test)]
pub(crate) use state::{FamilyReport, HealthReport};
pub(crate) use state::{HealthState, NodeState};
pub(crate) use watchdog::Watchdog;
