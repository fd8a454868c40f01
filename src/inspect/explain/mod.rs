//! Explains what happens to packets to an address or a Service, and why.
//!
//! Combines the tracer of [`rules`](crate::rules), which knows no Services, with the
//! [`catalog`](crate::inspect::catalog) of Services, which knows no packets. The result is data;
//! text, graphs and JSON are rendered from it.
//!
//! ```text
//!   Query ───────────► find ────► PacketDestination ─┐
//!                                                    ├─► trace ─► PacketPath ─► Explanation ─┐
//!   ClientSelection ─► clients ─► Client ────────────┘           text, json, tree, dot, svg ◄┘
//! ```
//!
//! # Invariants
//!
//! - Rules of kube-proxy of any release are explained like ours.
//! - A rule that cannot be evaluated is skipped and reported.

mod client;
mod destination;
mod explanation;
mod graph;
mod graph_formats;
mod json;
mod node;
mod node_address;
mod node_doubt;
mod path;
mod path_text;
mod query;
mod reason;
mod rule_text;
mod summary;
mod text;
mod trace;

#[cfg(test)]
mod tests;

pub use client::{Client, ClientKind, ClientSelection};
pub use destination::{DestinationFrontend, PacketDestination};
pub use explanation::{Explanation, Suggestion, explain};
pub use graph_formats::{dot, svg, tree};
pub use json::json;
pub use node::NodeRules;
pub use node_address::AddressOrigin;
pub use path::{Branch, EndpointScope, PacketPath, PathResult, SeenSource, SharedRules};
pub use path_text::Detail;
pub use query::{
    AddressQuery, InvalidQuery, MissingServiceHint, NoRulesReason, NotFound, Query,
    ServiceWithoutRules, UnusableNamespace,
};
pub use reason::{BlockReason, MasqueradeReason};
pub use text::text;
