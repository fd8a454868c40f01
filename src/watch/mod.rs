//! Sources of Services, EndpointSlices and Nodes: an API server, or files of manifests.
//!
//! Both end in an [`Ingester`], as a stream of [`Observed`] objects, which leave it as changes
//! through the channels of [`change_channels`].

pub mod api;
pub mod bounded;
mod change_channel;
pub mod cluster;
mod ingester;
pub mod manifests;
#[cfg(test)]
mod tests;

pub use change_channel::{ChangeReceiver, ChangeReceivers, ChangeSenders, change_channels};
pub use ingester::{Ingester, Observed};
