//! Sources of Services, EndpointSlices and Nodes: an API server, or files of manifests.
//!
//! Both end in an [`Ingester`], as a stream of [`Observed`] objects, which leave it as changes
//! through the channels of [`change_channels`].

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
