//! Sources of Services, EndpointSlices and Nodes: an API server, or files of manifests.
//!
//! Both end in an [`Ingester`], as a stream of [`Observed`] objects.

pub mod api;
pub mod bounded;
pub mod cluster;
mod ingester;
pub mod manifests;
#[cfg(test)]
mod tests;

pub use ingester::{ChangeSink, Ingester, Observed};
