//! The two HTTP servers: metrics for Prometheus, health for probes and load balancers.
//!
//! Apart because neither can keep the rules from being synced: an address that is taken is tried
//! again until it is free.

use std::net::SocketAddr;

use futures::future::join;
use http::request::Parts;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::health::{Health, HealthPages};
use crate::telemetry::{Metrics, MetricsPages, Reply, listen_retrying, serve};

/// Serves both until stopped.
pub(super) async fn run(
    config: &Config,
    health: &Health,
    metrics: &Metrics,
    stop: &CancellationToken,
) {
    let health_pages = HealthPages {
        health: health.clone(),
        metrics: metrics.health.clone(),
    };
    let metrics_pages = MetricsPages {
        registry: metrics.registry.clone(),
        configz: None,
    };
    join(
        one(
            config.healthz,
            "health",
            move |request| health_pages.answer(request),
            stop,
        ),
        one(
            config.metrics,
            "metrics",
            move |request| metrics_pages.answer(request),
            stop,
        ),
    )
    .await;
}

async fn one(
    address: SocketAddr,
    what: &str,
    answer: impl Fn(&Parts) -> Reply,
    stop: &CancellationToken,
) {
    if let Some(listener) = listen_retrying(address, what, stop).await {
        serve(listener, answer, stop.clone()).await;
    }
}
