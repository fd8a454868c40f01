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

mod frontend;
mod name;
mod object;
mod state;

pub use frontend::ExternalIps;
pub(crate) use frontend::{Frontend, FrontendRank, LostFrontend, PortFrontend};
pub(crate) use name::ServicePortName;
pub use name::{ServiceName, SliceName};
pub use object::{Change, Endpoint, Kind, Node, NodeHint, Service, ServicePort, Slice};
pub use object::{SlicePort, TrafficPolicy};
pub(crate) use state::{Allowance, MOST_ENDPOINTS, MOST_RULES_WITHOUT_ENDPOINTS, ServiceState};
pub use state::{NamespaceLimits, Services};
