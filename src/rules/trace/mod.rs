//! Traces a packet through the rules, as netfilter evaluates them, and returns all its outcomes.

mod address;
mod connection;
mod decide;
mod extension;
mod fork;
mod hook;
mod outcome;
mod packet;
mod path;
mod target;
mod walk;

pub use outcome::{BridgePort, Locality, Packet, Verdict};
pub(crate) use outcome::{Step, TraceOutcome, Unclear};
pub use walk::trace;
