//! Parses and prints single rules, in a normal form: spellings of the same rule compare equal.

mod condition;
mod digest;
mod matches;
mod probability;
mod rule;
mod target;
mod token;

pub(crate) use condition::Network;
pub(super) use condition::number;
pub(crate) use condition::{AddressTypes, ConntrackStates, MarkBits, Negatable, PortRange};
pub(crate) use digest::{RulesDigest, RulesHasher, rules_of_lines};
pub use matches::Match;
pub(crate) use matches::{Recent, RecentAction};
#[cfg(test)]
pub(crate) use probability::Probability;
pub use probability::Share;
pub use rule::Rule;
pub(super) use rule::is_altered;
pub(crate) use rule::without_counters;
pub(crate) use target::Target;
pub(crate) use token::Extension;
pub(super) use token::{ExtensionOption, until_blank, without_blanks};
