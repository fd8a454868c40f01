//! Where Services, EndpointSlices and Nodes come from: an API server or a folder of manifests.
//!
//! Apart from everything below so that both look alike: a stream of [`Observed`] objects.

pub mod api;
mod observed;

pub use observed::Observed;
