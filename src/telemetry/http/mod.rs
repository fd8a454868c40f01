//! HTTP server, and the pages of the metrics port.

mod debug;
mod listen;
mod metrics_pages;
mod server;
mod zpages;

pub use debug::{DebugPages, Debugging, PayloadPages};
pub use listen::{ListenError, listen, listen_in_family, listen_retrying};
pub use metrics_pages::{MetricsPages, PageSettings};
pub use server::{ConnectionLimit, Reply, not_found, reply, serve, serve_requests, serve_within};
