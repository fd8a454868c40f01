//! Logs, metrics and the HTTP server for metrics, health and health check node ports.

mod http;
mod log;
mod metrics;

pub use http::{
    ConnectionLimit, DebugPages, Debugging, ListenError, MetricsPages, PageSettings, PayloadPages,
    Reply, listen, listen_in_family, listen_retrying, not_found, reply, serve, serve_requests,
    serve_within,
};
pub use log::{Color, Format, LogError, LogLevel, LogOptions, install};
pub use metrics::{
    HealthMetrics, InFlightRequest, KernelCounts, LocalPolicy, ManifestMetrics, Metrics, ReadCount,
    RequestMetrics, SyncKind, SyncMetrics, WatchAges, WatchMetrics,
};
