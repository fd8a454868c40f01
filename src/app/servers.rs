//! The two HTTP servers: metrics for Prometheus, health for probes and load balancers.
//!
//! Apart because neither keeps the rules from being synced: an address that is taken is tried again
//! until it is free, unless that was forbidden.

use std::net::SocketAddr;

use anyhow::Context;
use futures::future::try_join;
use http::request::Parts;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Serving, Taken};
use crate::events::Event;
use crate::health::{Checks, HealthPages};
use crate::host::counted_packets;
use crate::render::Counter;
use crate::telemetry::{
    KernelCounts, Metrics, MetricsPages, Reply, listen, listen_retrying, serve,
};

/// All metrics, and those that are read from the kernel at each scrape.
pub(super) fn metrics() -> anyhow::Result<Metrics> {
    let metrics = Metrics::new()?;
    metrics.registry.register(Box::new(KernelCounts::new(
        || counted_packets(Counter::InvalidDropped.name()),
        || counted_packets(Counter::LocalhostNodePorts.name()),
    )?))?;
    Ok(metrics)
}

/// Serves both until stopped.
///
/// # Errors
///
/// An address cannot be listened on, and that is to be the end.
pub(super) async fn run(
    config: &Config,
    checks: &Checks,
    metrics: &Metrics,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let health_pages = HealthPages {
        health: checks.health.clone(),
        metrics: metrics.health.clone(),
    };
    let metrics_pages = MetricsPages {
        registry: metrics.registry.clone(),
        configz: Some(config.configuration.to_configz().into()),
    };
    let Serving {
        metrics,
        healthz,
        taken,
        ..
    } = config.serving;
    let health = async {
        let Some(address) = healthz else {
            return Ok(());
        };
        let listener = listener(address, "health", taken, stop)
            .await
            .inspect_err(|error| {
                checks
                    .recorder
                    .say(Event::HealthNotServed(format!("{error:#}")));
            })?;
        one(listener, move |request| health_pages.answer(request), stop).await;
        anyhow::Ok(())
    };
    let metrics = async {
        let Some(address) = metrics else {
            return Ok(());
        };
        let listener = listener(address, "metrics", taken, stop)
            .await
            .inspect_err(|error| {
                checks
                    .recorder
                    .say(Event::MetricsNotServed(format!("{error:#}")));
            })?;
        one(listener, move |request| metrics_pages.answer(request), stop).await;
        anyhow::Ok(())
    };
    try_join(health, metrics).await.map(drop)
}

/// `None` if stopped before the address was free.
async fn listener(
    address: SocketAddr,
    what: &str,
    taken: Taken,
    stop: &CancellationToken,
) -> anyhow::Result<Option<TcpListener>> {
    match taken {
        Taken::Retried => Ok(listen_retrying(address, what, stop).await),
        Taken::Fatal => listen(address)
            .map(Some)
            .with_context(|| format!("--bind-address-hard-fail: cannot serve {what}")),
    }
}

async fn one(
    listener: Option<TcpListener>,
    answer: impl Fn(&Parts) -> Reply,
    stop: &CancellationToken,
) {
    if let Some(listener) = listener {
        serve(listener, answer, stop.clone()).await;
    }
}
