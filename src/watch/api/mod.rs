//! Lists and watches Services, EndpointSlices and Nodes of an API server, for ever.
//!
//! The server is untrusted: it may be slow, down, or send objects that cannot be decoded. This
//! module does without `kube::runtime`, because there one undecodable object fails the whole list
//! that it is part of, and because a retry there counts as a success, so that delays never grow.
//!
//! # Invariants
//!
//! With any server: a kind is listed again after at most three responses that cannot be decoded,
//! requests never exceed the rate limit, and delays grow while no request succeeds.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/cache/reflector.go (v1.36)

mod client;
mod decode;
mod diagnostics;
mod error;
mod framing;
mod list;
mod page;
mod rate_limit;
mod reflector;
mod request;
mod resource;
mod response;
mod retry;
#[cfg(test)]
mod tests;
mod token_file;
mod transport;
mod watch;

pub use client::{ApiOptions, ApiServer, ConnectError, connect, connect_counted};
pub use decode::Undecodable;
pub use error::ApiError;
pub use framing::Decodable;
pub use list::{ClusterSnapshot, ObjectList, list, snapshot};
pub use rate_limit::RateLimit;
pub use reflector::{Observer, ReflectorEvent, list_and_watch};
pub use request::Encoding;
pub use resource::{ObjectName, Resource, Selector};
pub use response::write;
