//! Inputs of `iptables-restore`: full payloads, partial ones, and the removal of all rules.

mod changes;
mod cost;
mod full;
mod partial;
mod removal;

pub use full::Full;
pub(crate) use partial::Partial;
pub use partial::partial;
pub(crate) use removal::Removal;
