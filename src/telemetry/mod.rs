//! Logs, metrics and the small HTTP server they are served by.
//!
//! Apart so that nothing else decides how a number is called or where a log line goes.

mod accept;
mod build_info;
mod checks;
mod debug;
mod http;
mod kernel_counts;
mod listen;
mod logging;
mod metrics;
mod metrics_server;
mod plain;
mod process;
mod register;
mod requests;
mod room;
mod summed;
mod sync_families;
mod watch_ages;
mod watch_metrics;
mod zpages;

pub use debug::{DebugPages, Debugging, PayloadPages};
pub use http::{Reply, Room, not_found, reply, serve, serve_requests, serve_within};
pub use kernel_counts::{KernelCounts, ReadCount};
pub use listen::{ListenError, listen, listen_in_family, listen_retrying};
pub use logging::{Color, Format, LogError, LogLevel, Options as LogOptions, install};
pub use metrics::{Attempt, Policy, SyncMetrics};
pub use metrics_server::{Facts, MetricsPages};
pub use process::ProcessCollector;
pub use register::Metrics;
pub use requests::{RequestMetrics, Sent};
pub use watch_ages::WatchAges;
pub use watch_metrics::{HealthMetrics, WatchMetrics};
