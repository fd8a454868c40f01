//! Sources of Services, EndpointSlices and Nodes: an API server, or manifests.
//!
//! A source sends each [`SourceEvent`] to an [`Ingester`], which turns it into changes and sends
//! these through [`change_channels`] to the task of each IP family.
//!
//! The daemon follows a source for ever. Commands, such as `services` and `diff`, read it once.

pub(crate) mod api;
pub(crate) mod bounded;
mod changes;
pub(crate) mod cluster;
pub(crate) mod file_events;
pub(crate) mod manifests;
#[cfg(test)]
mod tests;

pub(crate) use changes::{ChangeReceiver, ChangeSenders};
pub use changes::{ChangeReceivers, Ingester, SourceEvent, change_channels};
