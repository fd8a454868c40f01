//! Lists and watches Services, EndpointSlices and the Node of an API server, for ever.
//!
//! The server is untrusted: it may be slow, down, or send objects that cannot be decoded.
//! [`reflector`] has the reasons not to use `kube::runtime`.
//!
//! # Invariants
//!
//! With any server: a kind is relisted after three protocol errors of its watches, requests never
//! exceed the rate limit, and the backoff is reset only after 30 s without a failure.
//!
//! # Terms
//!
//! - LIST: GET requests for all objects of a kind, in pages (`limit` and `continue`).
//! - WatchList: a watch that begins with all objects (`sendInitialEvents`), the initial events. A
//!   bookmark ends them, the final bookmark.
//! - Relist: any LIST or WatchList after the first one that was complete.
//! - Resume: to watch from the last received resource version.
//! - Reflector: the loop of one kind that lists, watches, and retries.
//! - Event of a watch: anything that it sends, bookmarks included. The reflector passes on source
//!   events (objects, lists) and reflector events (requests, objects that cannot be decoded).
//!
//! # Timeouts
//!
//! | time | limits | then |
//! |---|---|---|
//! | 10 s | TCP connection attempt, divided among the addresses of an IP family | failure |
//! | 30 s + 15 s | HTTP/2 without a frame, then the response to a ping | connection closed |
//! | 45 s | TCP without HTTP/2: no data and no answer to keepalive probes | connection closed |
//! | 10 s | request for `/version`, the first time before all others | others sent |
//! | 60 s | headers of a response, and each piece of a page | failure |
//! | 10 s | short body: of an error, of `/version`, or of the response to an object of kind Event | used as far as received |
//! | 5 min, 10 min | one page of a LIST, all of its pages | failure |
//! | 10 s, 5 min | WatchList: next initial object, final bookmark | LIST |
//! | 3 min | no complete event of a watch | watch reopened |
//! | 5-10 min | `timeoutSeconds` of a watch; the client itself waits 30 s longer | watch reopened |
//! | at most 60 s | `Retry-After` | next request |
//!
//! Upstream: k8s.io/client-go/tools/cache/reflector.go (v1.37)

mod client;
mod encoding;
mod error;
mod list;
#[cfg(feature = "tools")]
mod pods;
mod proxy;
mod reflector;
mod resource;
mod response;
mod retry;
#[cfg(feature = "tools")]
mod review;
#[cfg(test)]
pub(super) mod tests;
mod transport;
mod watch;

pub use client::{ApiClient, ApiOptions, RateLimit, build_client};
pub(crate) use client::{ContextChoice, build_counted_client};
pub use encoding::Encoding;
#[cfg(feature = "tools")]
pub(crate) use encoding::ObjectDecodeError;
pub(crate) use error::{ApiError, ClientConfigError, ConnectFailure, is_not_http};
pub use list::snapshot;
#[cfg(feature = "tools")]
pub(crate) use list::{ClusterSnapshot, list, within};
#[cfg(feature = "tools")]
pub(crate) use pods::{PodRole, ProxyPod, ProxyProgram, StreamError, exec, port_forward};
pub use proxy::ProxyEnvironment;
pub use reflector::{Observer, ReflectorEvent, list_and_watch};
pub(crate) use resource::Resource;
pub use resource::{Decodable, Selector};
pub(crate) use response::{send_object, server_version};
#[cfg(feature = "tools")]
pub(crate) use review::{is_allowed, server_time};
