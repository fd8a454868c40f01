//! Logs, metrics and the HTTP server for metrics, health and health check node ports.

mod http;
mod log;
mod metrics;

pub(crate) use http::{
    ConnectionLimit, DebugPages, Debugging, ListenError, MetricsPages, PageSettings, PayloadPages,
    Reply, listen, listen_in_family, listen_retrying, not_found, reply, serve, serve_requests,
    serve_within,
};
pub(crate) use log::{Color, Format, LogLevel, LogOptions, install};
pub(crate) use metrics::{
    HealthMetrics, KernelCounts, LocalPolicy, ManifestMetrics, Metrics, RequestMetrics, SyncKind,
    SyncMetrics, WatchAges, WatchMetrics,
};
