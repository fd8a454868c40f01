//! Inputs of `iptables-restore`: full payloads, partial ones, and the removal of all rules.

mod changes;
mod cost;
mod dispatch_chains;
mod full;
mod partial;
mod removal;

pub use full::FullPayload;
pub(crate) use partial::PartialPayload;
pub use partial::partial_payload;
pub(crate) use removal::Removal;
