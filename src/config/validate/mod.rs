//! Whether the values of a configuration can be used: all that is wrong, at once.
//!
//! Apart from [`resolve`](super::resolve), which puts together what these parts return. Each takes
//! text and numbers and returns what our modules want instead, so that nothing can be used that
//! was not looked at.
//!
//! # Source
//!
//! Upstream: pkg/proxy/apis/config/validation/validation.go (v1.36)

mod limits;
mod logging;
mod network;
mod problems;

pub(super) use limits::{burst, conntrack, gates, hidden_metrics, masquerade_bit, mode};
pub(super) use limits::{oom_score_adj, periods};
pub(super) use logging::logging;
pub(super) use network::{bind_address, local_mode, node_ports, pair, serving_address};
pub(super) use problems::Problems;
pub use problems::{Problem, Unusable};
