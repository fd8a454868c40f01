//! Runs the two HTTP servers: metrics for Prometheus, health for probes and load balancers.
//!
//! Neither delays a sync: an address in use is retried until it is free, unless
//! `--bind-address-hard-fail` is set. Both run on a thread of their own, so that probes are
//! answered while another thread is busy or [stalled](Watchdog).

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use futures::future::try_join;
use http::Request;
use http::request::Parts;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use crate::config::{BindFailure, Config, Profiling, Serving};
use crate::events::{Event, Recorder};
use crate::health::{CheckServerContext, HealthPages, Watchdog};
use crate::host::{PayloadLog, counted_packets};
use crate::render::Counter;
use crate::telemetry::{
    DebugPages, Debugging, KernelCounts, LogLevel, Metrics, MetricsPages, PageSettings,
    PayloadPages, Reply, listen, listen_retrying, serve, serve_requests,
};

/// Minimum time before a thread counts as stalled: decoding a list of many objects may take long.
const MIN_STALL: Duration = Duration::from_secs(20);

/// Returns the watchdog of all threads. A thread may send no heartbeat for as long as a change may
/// wait for its sync.
pub(super) fn watchdog(config: &Config) -> Watchdog {
    Watchdog::new(config.sync_period.saturating_mul(2).max(MIN_STALL))
}

/// Returns all metrics, with the packet counters that are read from the kernel at each scrape.
pub(super) fn metrics() -> anyhow::Result<Metrics> {
    let metrics = Metrics::new()?;
    metrics.registry.register(Box::new(KernelCounts::new(
        || counted_packets(Counter::InvalidDropped.name()),
        || counted_packets(Counter::LocalhostNodePorts.name()),
    )?))?;
    Ok(metrics)
}

/// Runs both servers until stopped.
///
/// # Errors
///
/// An address cannot be listened on, and `--bind-address-hard-fail` is set.
pub(super) async fn run(
    config: &Config,
    checks: &CheckServerContext,
    metrics: &Metrics,
    log: LogLevel,
    shared: &Shared,
) -> anyhow::Result<()> {
    let Shared {
        watchdog,
        payloads,
        stop,
    } = shared;
    let health_pages = HealthPages {
        health: checks.health.clone(),
        metrics: metrics.health.clone(),
        watches: metrics.watch.ages.clone(),
        manifests: metrics.manifests.clone(),
    };
    let settings = PageSettings {
        configz: config.configuration.to_configz().into(),
        flags: config.flags.clone(),
        debugging: match config.serving.profiling {
            Profiling::On => Debugging::On(DebugPages {
                level: log,
                payloads: payloads
                    .as_ref()
                    .map(payload_pages)
                    .filter(|_| is_loopback(config)),
            }),
            Profiling::Off => Debugging::Off,
        },
    };
    let metrics_pages = MetricsPages::new(metrics.registry.clone(), settings)?;
    let (serving, recorder, stop) = (serving(config), checks.recorder.clone(), stop.clone());
    let heartbeat = watchdog.watch("main");
    let watchdog = watchdog.clone();
    let (result_sender, returned) = oneshot::channel();
    let work = move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        let health = |request: &Parts| watchdog.answer(&health_pages, request);
        let serve = serve_both(serving, health, &metrics_pages, &recorder, &stop);
        let result = runtime
            .map_err(Into::into)
            .and_then(|runtime| runtime.block_on(serve));
        // Without a receiver the process is about to exit.
        let _ = result_sender.send(result);
    };
    thread::Builder::new()
        .name("pages".to_owned())
        .spawn(work)?;
    tokio::select! {
        result = returned => result.context("the thread of the HTTP servers ended unexpectedly")?,
        never = heartbeat.beat() => never,
    }
}

/// Returns the addresses to serve. A dry run has none: it may run beside the proxy of the node,
/// and an answer on the health address would be taken for that proxy's.
fn serving(config: &Config) -> Serving {
    if !config.is_dry_run {
        return config.serving;
    }
    Serving {
        metrics: None,
        healthz: None,
        ..config.serving
    }
}

fn payload_pages(log: &PayloadLog) -> PayloadPages {
    let (applied, failed) = (log.clone(), log.clone());
    PayloadPages {
        applied: Arc::new(move || applied.applied()),
        failed: Arc::new(move || failed.failed()),
    }
}

fn is_loopback(config: &Config) -> bool {
    let address = config.serving.metrics;
    address.is_some_and(|address| address.ip().is_loopback())
}

async fn serve_both(
    serving: Serving,
    health: impl Fn(&Parts) -> Reply,
    metrics: &MetricsPages,
    recorder: &Recorder,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let health = async {
        let listener = listener(serving.healthz, "health", serving.bind_failure, stop)
            .await
            .inspect_err(|error| recorder.say(Event::HealthNotServed(format!("{error:#}"))))?;
        if let Some(listener) = listener {
            serve(listener, &health, stop.clone()).await;
        }
        anyhow::Ok(())
    };
    let metrics = async {
        let listener = listener(serving.metrics, "metrics", serving.bind_failure, stop)
            .await
            .inspect_err(|error| recorder.say(Event::MetricsNotServed(format!("{error:#}"))))?;
        if let Some(listener) = listener {
            let answer = |request: Request<Bytes>| metrics.answer(&request);
            serve_requests(listener, answer, stop.clone()).await;
        }
        anyhow::Ok(())
    };
    try_join(health, metrics).await.map(drop)
}

/// Returns the listener of a server; `None` if it has no address, or if stopped before the address
/// was free.
async fn listener(
    address: Option<SocketAddr>,
    name: &str,
    bind_failure: BindFailure,
    stop: &CancellationToken,
) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = address else {
        return Ok(None);
    };
    match bind_failure {
        BindFailure::Retry => Ok(listen_retrying(address, name, stop).await),
        BindFailure::Exit => listen(address)
            .map(Some)
            .with_context(|| format!("--bind-address-hard-fail: cannot serve {name}")),
    }
}
