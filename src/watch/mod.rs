//! Sources of Services, EndpointSlices and Nodes: an API server, or manifests.
//!
//! A source sends each [`SourceEvent`] to an [`Ingester`], which turns it into changes and sends
//! these through [`change_channels`] to the task of each IP family.
//!
//! The daemon follows a source for ever. Commands, such as `services` and `diff`, read it once.

pub(crate) mod api;
pub(crate) mod bounded;
mod change_channel;
pub(crate) mod cluster;
pub(crate) mod file_events;
mod ingester;
pub(crate) mod manifests;
#[cfg(test)]
mod tests;

pub(crate) use change_channel::{ChangeReceiver, ChangeSenders};
pub use change_channel::{ChangeReceivers, change_channels};
pub use ingester::{Ingester, SourceEvent};
