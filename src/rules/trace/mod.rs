//! Traces a packet through the rules, as netfilter evaluates them, and returns all its outcomes.

mod decide;
mod hook;
mod outcome;
mod path;
mod walk;

pub use outcome::{Locality, Packet, Step, TraceOutcome, Unclear, Verdict};
pub use walk::{trace, trace_past_undecided};
