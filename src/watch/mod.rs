//! Sources of Services, EndpointSlices and Nodes: an API server, or files of manifests.
//!
//! A source sends events ([`Observed`]) to an [`Ingester`]. That makes changes of them, and sends
//! these through [`change_channels`] to the task of each IP family.
//!
//! The daemon follows a source for ever. Commands, such as `services` and `diff`, read it once.

pub(crate) mod api;
pub(crate) mod bounded;
mod change_channel;
pub(crate) mod cluster;
mod ingester;
pub(crate) mod manifests;
#[cfg(test)]
mod tests;

pub(crate) use change_channel::{ChangeReceiver, ChangeSenders};
pub use change_channel::{ChangeReceivers, change_channels};
pub use ingester::{Ingester, Observed};
