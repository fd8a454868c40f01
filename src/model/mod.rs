//! Services, EndpointSlices and the Node, reduced to what rules depend on: plain data of one
//! family.
//!
//! Types of the API hold an object as it was written; these hold its effective values, with
//! defaults. [`ingest`](crate::ingest) rejects what is not valid, so every value here can be
//! rendered.
//!
//! # Source
//!
//! Upstream: pkg/proxy/serviceport.go, pkg/proxy/endpoint.go (v1.37)

mod object;
mod state;

pub use object::{Change, Endpoint, Kind, Node, NodeHint, Service, ServiceName, ServicePort};
pub(crate) use object::{ServicePortName, SourceChange};
pub use object::{Slice, SliceName, SlicePort, Topology, TrafficPolicy};
pub(crate) use state::{Allowance, MOST_ENDPOINTS, MOST_RULES_WITHOUT_ENDPOINTS, ServiceState};
pub use state::{ExternalIps, NamespaceLimits, Services};
pub(crate) use state::{Frontend, FrontendRank, LostFrontend, PortFrontend};
