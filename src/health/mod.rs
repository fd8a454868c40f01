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

pub use check::{Answering, Check, CheckChanges};
pub use check_servers::{CheckServerContext, CheckServers};
pub use server::{Health, HealthPages};
pub use state::{
    FamilyReport, FrontendConflicts, HealthState, NodeState, QuarantinedServices, Report,
    UnreadableTables,
};
pub use watchdog::{Heartbeat, Watchdog};
