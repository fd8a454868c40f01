//! Services, EndpointSlices and the Node, reduced to what rules depend on: plain data of one
//! family.
//!
//! Types of the API hold an object as it was written; these hold its effective values, with
//! defaults. [`ingest`](crate::ingest) rejects what is not valid, so every value here can be
//! rendered.
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
pub use frontend::ExternalIps;
pub(crate) use frontend::{Frontend, FrontendRank, LostFrontend, PortFrontend};
pub use limits::NamespaceLimits;
pub(crate) use limits::{Allowance, MOST_ENDPOINTS, MOST_RULES_WITHOUT_ENDPOINTS};
pub(crate) use name::ServicePortName;
pub use name::{ServiceName, SliceName};
pub use node::Node;
pub use service::{Service, ServicePort, TrafficPolicy};
pub(crate) use state::ServiceState;
pub use state::Services;
