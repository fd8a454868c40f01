//! Inputs of `iptables-restore`: full payloads, partial ones, and the removal of all rules.

mod cost;
mod full;
mod partial;
mod removal;

pub use cost::PayloadStats;
pub use full::FullPayload;
pub use partial::partial_payload;
#[cfg(test)]
pub(crate) use partial::repair_payload;
pub(crate) use partial::{PartialPayload, service_of_line};
pub(crate) use removal::Removal;
