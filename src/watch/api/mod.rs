//! Services, EndpointSlices and Nodes from an API server: listed, then watched, for ever.
//!
//! Apart from the other sources because all of this is about a peer that may be slow, gone, or
//! of another mind about what an object looks like. Its own list and watch, and not
//! `kube::runtime`, because there one unreadable object fails the whole list it is part of, and
//! because a retry there counts as a success and so never waits longer than the first one.
//!
//! What is read comes as JSON or as protobuf, and is told apart in `raw` for one object, in
//! `event` and `page` for what objects come in, and in `message` for where a message ends.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/cache/reflector.go (v1.36)

mod answer;
mod backoff;
mod client;
mod counted;
mod dice;
mod encoding;
mod envelope;
mod error;
mod event;
mod follow;
mod frame;
mod kind;
mod line;
mod list;
mod message;
mod object;
mod opening;
mod outage;
mod page;
mod position;
mod rate_limit;
mod raw;
mod request;
mod sink;
mod status;
mod transport;
mod watch;
mod write;

pub use client::{ApiOptions, ApiServer, ConnectError, connect, connect_counted};
pub use dice::roll;
pub use encoding::Encoding;
pub use error::ApiError;
pub use follow::follow;
pub use kind::{Kind, Selector};
pub use list::{Found, Snapshot, list, snapshot};
pub use object::{ObjectName, Undecodable};
pub use rate_limit::RateLimit;
pub use raw::Spoken;
pub use sink::{Notice, Sink};
pub use write::write;

#[cfg(test)]
mod tests;
