//! Models the language of `iptables-restore`: rules, tables, payloads, and the path of a packet.
//!
//! Knows nothing of Services. The fake kernel of the tests, `diff`, `explain` and the comparison
//! with the rules in the kernel all use this one model of a payload's effect.

#[cfg(feature = "tools")]
mod chain;
#[cfg(feature = "testing")]
#[path = "tests/comparison.rs"]
mod comparison;
mod error;
mod grammar;
#[cfg(feature = "tools")]
mod reader;
#[cfg(feature = "tools")]
mod ruleset;
mod table;
#[cfg(feature = "tools")]
mod trace;

#[cfg(test)]
mod tests;

#[cfg(feature = "tools")]
pub(crate) use chain::Chain;
#[cfg(feature = "testing")]
pub use comparison::Comparison;
pub(crate) use error::{LineError, ParseError};
#[cfg(test)]
pub(crate) use grammar::Probability;
pub use grammar::{Match, Rule, Share};
pub(crate) use grammar::{
    Network, RecentAction, RulesDigest, RulesHasher, Target, rules_of_lines, without_counters,
};
#[cfg(feature = "tools")]
pub use ruleset::RuleSet;
pub use table::{Backend, Payload, Table, Text};
pub(crate) use table::{COUNTER_TEST_CHAIN, ChainSet, TracedTable};
#[cfg(feature = "tools")]
pub use trace::{
    BridgePort, HostLookup, Packet, RoutedPacket, SetElement, Side, TracedNode, Verdict, trace,
};
#[cfg(feature = "tools")]
pub(crate) use trace::{ReplyLoss, Step, TraceOutcome, Unclear};
