//! Where Services, EndpointSlices and Nodes come from: an API server or a folder of manifests.
//!
//! Apart from everything below so that both look alike: a stream of [`Observed`] objects.

pub mod api;
pub mod bounded;
pub mod manifests;
mod observed;
mod outlet;
mod said;
#[cfg(test)]
mod tests;

pub use observed::Observed;
pub use outlet::{Outlet, Sink};
