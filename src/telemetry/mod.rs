//! Logs, metrics and the HTTP server for metrics, health and health check node ports.

mod log;
mod metrics;
mod metrics_pages;
mod repeats;
mod server;

pub(crate) use log::{Format, LogLevel, LogOptions, escaped, install, on_one_line, with_causes};
pub(crate) use metrics::{
    ConfigFileState, ConfigMetrics, ConnectionMetrics, ConnectionReading, HealthMetrics,
    HistoryMetrics, KubernetesBuild, KubernetesVersion, ManifestMetrics, Metrics,
    PREVIOUS_MINOR_VERSION, RequestMetrics, ShadowMetrics, ShadowProxy, SyncKind, SyncMetrics,
    UnknownSettings, WatchAges, WatchMetrics,
};
pub(crate) use metrics_pages::{MetricsPages, PageSettings};
pub(crate) use server::{
    ConnectionLimit, ListenError, Reply, TEXT, is_of_this_node, listen, listen_in_family,
    listen_retrying, not_found, reply, serve, serve_within, streamed,
};
