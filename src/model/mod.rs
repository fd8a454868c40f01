//! What Services, EndpointSlices and this Node mean to a proxy: plain data, one family at a time.
//!
//! Apart from the API's own types because those say what was written; these say what it amounts
//! to. Whatever could be wrong in an object was dealt with by [`ingest`](crate::ingest), so every
//! value here can be rendered.
//!
//! # Source
//!
//! Upstream: pkg/proxy/serviceport.go, pkg/proxy/endpoint.go (v1.36)

mod change;
mod endpoint;
mod frontend;
mod limits;
mod name;
mod node;
mod service;
mod state;

pub use change::{Change, Kind};
pub use endpoint::{Endpoint, NodeHint, Slice, SlicePort};
pub use frontend::{ExternalIps, Frontend, FrontendRank, LostFrontend, PortFrontend};
pub use limits::{Allowance, MOST_ENDPOINTS, MOST_RULES_WITHOUT_ENDPOINTS, NamespaceLimits};
pub use name::{ServiceName, ServicePortName, SliceName};
pub use node::Node;
pub use service::{Service, ServicePort, TrafficPolicy};
pub use state::{ServiceState, Services};
