//! Health of the process, and the health check node ports of Services.
//!
//! No answer waits for a sync.

mod check;
mod check_page;
mod check_servers;
mod check_thread;
mod retry;
mod server;
mod state;
mod watchdog;

#[cfg(test)]
#[path = "tests/recorded.rs"]
mod recorded;

pub(crate) use check::{Answering, CheckChanges};
pub(crate) use check_servers::{CheckServerContext, CheckServers};
pub(crate) use server::{Health, HealthPages};
#[cfg(test)]
pub(crate) use state::FamilyReport;
pub(crate) use state::{
    FrontendConflicts, HealthState, NodeState, QuarantinedServices, Report, UnreadableTables,
};
pub(crate) use watchdog::Watchdog;
