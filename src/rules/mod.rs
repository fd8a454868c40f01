//! Models the language of `iptables-restore`: rules, tables, payloads, and the path of a packet.
//!
//! Knows nothing of Services. The fake kernel of the tests, `diff`, `explain` and the comparison
//! with the rules in the kernel all use this one model of a payload's effect.

mod altered;
mod chain;
mod diff;
mod error;
mod grammar;
mod ruleset;
mod table;
mod trace;
mod transaction;

#[cfg(test)]
mod tests;

pub use chain::{Chain, ChainPolicy};
pub use diff::{ChainChange, ChainDifference, Comparison, Difference};
pub use error::{ApplyError, LineError, ParseError};
pub use grammar::{
    AddressTypes, ConntrackStates, Extension, MarkBits, Match, MultiPort, Negatable, Network,
    PortRange, PortSide, Probability, Recent, RecentAction, Rule, Share, Target,
};
pub use ruleset::RuleSet;
pub use table::{Backend, COUNTER_TEST_CHAIN, Payload, Table, Text};
pub use trace::{BridgePort, Locality, Packet, Step, TraceOutcome, Unclear, Verdict, trace};
