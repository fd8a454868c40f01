//! Parses and prints single rules, in a normal form: spellings of the same rule compare equal.

mod condition;
mod extension;
mod matches;
mod network;
mod probability;
mod rule;
mod target;
mod token;

pub(super) use condition::number;
pub use condition::{
    AddressTypes, ConntrackStates, MarkBits, MultiPort, Negatable, PortRange, PortSide,
};
pub use extension::Extension;
pub(super) use extension::ExtensionOption;
pub use matches::{Match, Recent, RecentAction};
pub use network::Network;
pub use probability::{Probability, Share};
pub use rule::Rule;
pub(super) use rule::without_counters;
pub use target::Target;
