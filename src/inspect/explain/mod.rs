//! Explains what happens to packets to an address or a Service, and why.
//!
//! Combines the tracer of [`rules`](crate::rules), which knows no Services, with the
//! [`catalog`](crate::inspect::catalog) of Services, which knows no packets. The result is data;
//! text, graphs and JSON are rendered from it.
//!
//! ```text
//!   Query ───────────► find ────► PacketDestination ─┐
//!                                                    ├─► trace ─► PacketPath ─► Explanation ─┐
//!   ClientSelection ─► clients ─► Client ────────────┘      text, json, tree, svg, outcomes ◄┘
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
mod json;
mod node;
mod outcome;
mod path;
mod phrases;
mod text;

#[cfg(test)]
mod tests;

pub(crate) use client::ClientKind;
pub use client::ClientSelection;
pub(crate) use destination::Query;
pub(crate) use explanation::Explanation;
pub use explanation::explain;
pub(crate) use graph::{svg, tree};
pub(crate) use json::json;
pub use node::NodeRules;
pub(crate) use outcome::{ClientOutcome, TracedPackets, client_kinds, outcomes, unexpected};
pub use path::{PacketPath, PathResult, SeenSource};
pub(crate) use text::{Detail, text};
