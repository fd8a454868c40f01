//! Runs the two HTTP servers: metrics for Prometheus, health for probes and load balancers; and
//! builds the parts that they share with the threads of the families.
//!
//! Neither delays a sync: an address in use is retried until it is free, unless
//! `--bind-address-hard-fail` is set. Both run on a thread of their own, so that probes are
//! answered while another thread is busy or [stalled](Watchdog).

use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use futures::future::try_join;
use http::Request;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::clock;
use crate::config::{BindFailure, Config, Serving, Source, VERSION, environment};
use crate::events::{Event, Origin, Recorder, Writer, recorder};
use crate::health::{CheckServerContext, Health, HealthPages, Watchdog};
use crate::history::HistoryWriter;
use crate::host::{counted_packets, max_open_files, raise_open_files};
use crate::net::PerFamily;
use crate::render::Counter;
use crate::status::{
    FamilyLog, FamilyRequest, FamilyRequests, RulesPage, ServicePages, ShadowLog, StatusPages,
};
use crate::sync::SyncMode;
use crate::telemetry::{
    ConnectionLimit, HistoryMetrics, LogLevel, Metrics, MetricsPages, PageSettings, Reply, listen,
    listen_retrying, serve,
};

/// Maximum connections of health check node ports, all Services together: some hundred Services,
/// each with some probers that keep theirs open. A connection takes some kilobytes.
const MAX_CHECK_CONNECTIONS: usize = 1024;

/// Minimum time before a thread counts as stalled: decoding a list of many objects may take long.
const MIN_STALL: Duration = Duration::from_secs(20);

/// Parts that the threads of both families and of the servers share.
pub(super) struct ProcessContext {
    pub(super) watchdog: Watchdog,
    pub(super) stop: CancellationToken,
}

/// Returns the maximum listening sockets of health check node ports, of both families together:
/// half of all open files. The others are for connections, which evict each other, and for the
/// pipes of iptables programs.
fn max_check_sockets() -> usize {
    (max_open_files() / 2).min(Semaphore::MAX_PERMITS)
}

/// Returns the parts of health checks, and the writer of Events: only with an API server, and not
/// in a dry run. Records that the process starts.
pub(super) fn health_checks(config: &Config) -> (CheckServerContext, Option<Writer>) {
    let (recorder, writer) = match config.rules.source {
        Source::Cluster(_) if config.mode == SyncMode::Restore => {
            let (recorder, writer) = recorder(Origin {
                node_name: config.rules.node_name.clone(),
                host_name: environment::host_name(),
            });
            (recorder, Some(writer))
        }
        _ => (Recorder::disabled(), None),
    };
    recorder.record(Event::Starting);
    if let Err(cause) = raise_open_files() {
        warn!(
            %cause,
            "cannot raise the limit of open files; health check node ports may run out of sockets"
        );
    }
    let checks = CheckServerContext {
        health: Health::new(config.sync_period),
        recorder,
        node_name: config.rules.node_name.clone(),
        connection_limit: ConnectionLimit::new(MAX_CHECK_CONNECTIONS),
        sockets: Arc::new(Semaphore::new(max_check_sockets())),
    };
    (checks, writer)
}

/// Starts the writer of the history, if `--state-dir` is set. A dry run writes nothing.
pub(super) fn history(config: &Config, metrics: &Metrics) -> anyhow::Result<Option<HistoryWriter>> {
    let Some(folder) = config.state_dir.clone() else {
        return Ok(None);
    };
    if config.mode != SyncMode::Restore {
        return Ok(None);
    }
    let metrics = HistoryMetrics::register(&metrics.registry)?;
    let writer = HistoryWriter::start(folder, metrics, clock::timestamp(clock::process_start()));
    Ok(Some(
        writer.context("cannot start the thread of --state-dir")?,
    ))
}

/// Returns the watchdog of all threads. A thread may send no heartbeat for as long as a change may
/// wait for its sync.
pub(super) fn watchdog(config: &Config) -> Watchdog {
    Watchdog::new(config.sync_period.saturating_mul(2).max(MIN_STALL))
}

/// Returns all metrics, with the packet counters that are read from the kernel at each scrape.
pub(super) fn metrics() -> anyhow::Result<Metrics> {
    let metrics = Metrics::new()?;
    metrics.count_packets(
        || counted_packets(Counter::InvalidDropped.name()),
        || counted_packets(Counter::LocalhostNodePorts.name()),
    )?;
    Ok(metrics)
}

/// Parts of the pages about the node that belong to a family.
pub(super) struct FamilyPages {
    pub(super) log: FamilyLog,
    pub(super) requests: mpsc::Receiver<FamilyRequest>,
    /// State of its comparison in shadow mode.
    pub(super) shadow: ShadowLog,
}

/// Returns the pages about the node, and what each family contributes to them.
pub(super) fn status_pages(
    config: &Config,
    metrics: &Metrics,
) -> (StatusPages, PerFamily<FamilyPages>) {
    let node = &config.rules.node_name;
    let (requests, ends) = FamilyRequests::new();
    let requests = Arc::new(requests);
    let families = PerFamily::from_fn(FamilyLog::new);
    let shadow = PerFamily::from_fn(ShadowLog::new);
    let family_pages = ends.map(|family, requests| FamilyPages {
        log: families.get(family).clone(),
        requests,
        shadow: shadow.get(family).clone(),
    });
    let pages = StatusPages {
        node: node.clone(),
        version: VERSION,
        started: clock::timestamp(clock::process_start()),
        rules: Arc::new(RulesPage::new(node.clone(), VERSION, Arc::clone(&requests))),
        services: config
            .serving
            .has_status_page
            .then(|| ServicePages::new(requests)),
        families,
        shadow: (config.mode == SyncMode::Shadow).then_some(shadow),
        watches: metrics.watch.ages.clone(),
        config: metrics.config.clone(),
        unknown_settings: config.unknown.clone(),
    };
    (pages, family_pages)
}

/// Runs both servers until stopped.
///
/// # Errors
///
/// An address cannot be listened on, and `--bind-address-hard-fail` is set.
pub(super) async fn run(
    config: &Config,
    checks: &CheckServerContext,
    (metrics, status_pages): (&Metrics, StatusPages),
    log: LogLevel,
    shared: &ProcessContext,
) -> anyhow::Result<()> {
    let ProcessContext { watchdog, stop } = shared;
    let health_pages = HealthPages {
        health: checks.health.clone(),
        metrics: metrics.health.clone(),
    };
    metrics.config.set_unknown(&config.unknown);
    let settings = PageSettings {
        configz: config.configuration.to_configz().into(),
        flags: config.flags.clone(),
        debugging: config.serving.is_profiling.then_some(log),
    };
    let metrics_pages = MetricsPages::new(metrics.registry.clone(), settings)?;
    let (serving, recorder, stop) = (serving(config), checks.recorder.clone(), stop.clone());
    let heartbeat = watchdog.watch("main");
    let watchdog = watchdog.clone();
    let (result_sender, returned) = oneshot::channel();
    let work = move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        let health = |request: &Request<Bytes>| watchdog.answer(&health_pages, request);
        let serve = serve_both(
            serving,
            health,
            (&metrics_pages, &status_pages),
            &recorder,
            &stop,
        );
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
    if config.mode != SyncMode::DryRun {
        return config.serving;
    }
    Serving {
        metrics: None,
        healthz: None,
        ..config.serving
    }
}

async fn serve_both(
    serving: Serving,
    health: impl Fn(&Request<Bytes>) -> Reply,
    (metrics, status): (&MetricsPages, &StatusPages),
    recorder: &Recorder,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let health = async {
        let server = ("health", "--healthz-bind-address");
        let listener = listener(serving.healthz, server, serving.bind_failure, stop)
            .await
            .inspect_err(|error| recorder.record(Event::HealthNotServed(format!("{error:#}"))))?;
        if let Some(listener) = listener {
            serve(listener, |request| ready(health(&request)), stop.clone()).await;
        }
        anyhow::Ok(())
    };
    let metrics = async {
        let server = ("metrics", "--metrics-bind-address");
        let listener = listener(serving.metrics, server, serving.bind_failure, stop)
            .await
            .inspect_err(|error| recorder.record(Event::MetricsNotServed(format!("{error:#}"))))?;
        if let Some(listener) = listener {
            let answer = |request: Request<Bytes>| async move {
                match status.answer(&request).await {
                    Some(reply) => reply,
                    None => metrics.answer(&request),
                }
            };
            serve(listener, answer, stop.clone()).await;
        }
        anyhow::Ok(())
    };
    try_join(health, metrics).await.map(drop)
}

/// Returns the listener of a server, given its name and the flag of its address; `None` if it has
/// no address, or if stopped before the address was free.
async fn listener(
    address: Option<SocketAddr>,
    (name, flag): (&str, &str),
    bind_failure: BindFailure,
    stop: &CancellationToken,
) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = address else {
        return Ok(None);
    };
    match bind_failure {
        BindFailure::Retry => Ok(listen_retrying(address, name, flag, stop).await),
        BindFailure::Exit => listen(address)
            .map(Some)
            .with_context(|| format!("--bind-address-hard-fail: cannot serve {name}")),
    }
}
