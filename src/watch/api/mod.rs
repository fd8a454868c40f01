//! Services, EndpointSlices and Nodes from an API server: listed, then watched, for ever.
//!
//! All of this is about a peer that may be slow, gone, or of another mind about what an object
//! looks like. The module lists and watches by itself, without `kube::runtime`, because there one
//! unreadable object fails the whole list it is part of, and because a retry there counts as a
//! success and so never waits longer than the first one.
//!
//! Answers come as JSON or as protobuf: `raw` knows both for one object, `event` and `page` for
//! what objects come in, and `message` for where a message ends.
//!
//! # Invariants
//!
//! Whatever answers in place of the server: a kind is listed again after at most three answers
//! that cannot be read, requests never exceed the rate limit, and waits grow while nothing works.
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
mod list_limit;
mod message;
mod object;
mod opening;
mod outage;
mod page;
mod population;
mod position;
mod rate_limit;
mod raw;
mod request;
mod sink;
mod status;
mod token_file;
mod transport;
mod type_meta;
mod unreadable;
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
