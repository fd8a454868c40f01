//! Traces a packet through the rules, as netfilter evaluates them, and returns all its outcomes.

mod decide;
mod fork;
mod hook;
mod outcome;
mod packet;
mod path;
mod walk;

pub use outcome::{
    BridgePort, HostLookup, Packet, RoutedPacket, SetElement, Side, TracedNode, Verdict,
};
pub(crate) use outcome::{ReplyLoss, Step, TraceOutcome, Unclear};
pub use walk::trace;
#[cfg(test)]
pub(in crate::rules) use walk::trace_counted;
