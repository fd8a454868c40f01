//! The language of `iptables-restore` as data; knows no Services.
//!
//! Apart so that one model of what a payload does to a rule set serves the fake kernel of the
//! tests, `diff`, `explain` and the comparison with what the kernel really holds.

mod backend;
mod chain;
mod command;
mod condition;
mod decide;
mod diff;
mod hook;
mod matches;
mod multiport;
mod names;
mod network;
mod obey;
mod outcome;
mod packet;
mod payload;
mod probability;
mod read_match;
mod read_target;
mod reason;
mod rule;
mod ruleset;
mod share;
mod spec;
mod stack;
mod stage;
mod table;
mod target;
mod token;
mod trace;
mod traveller;

#[cfg(test)]
mod tests;

pub use backend::Backend;
pub use chain::{Chain, Policy};
pub use condition::{Bits, Negatable, PortRange};
pub use diff::{ChainDifference, Change, Comparison, Difference};
pub use matches::{Extension, Match, Recent, RecentAction};
pub use multiport::{MultiPort, Side};
pub use names::{AddressTypes, States};
pub use network::Network;
pub use outcome::{Outcome, Step, Unclear, Verdict};
pub use packet::{Locality, Packet};
pub use payload::{Payload, Text};
pub use probability::Probability;
pub use reason::{ParseError, Reason, Refused};
pub use rule::Rule;
pub use ruleset::RuleSet;
pub use share::Share;
pub use table::{COUNTER_TEST_CHAIN, Table};
pub use target::Target;
pub use trace::{trace, trace_past_doubts};
