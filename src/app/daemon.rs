//! Life of the daemon: builds its parts, starts them, and shuts them down in order.
//!
//! Nothing on the node is changed before there is a source, every wait can be interrupted by a
//! shutdown, and the rules stay in the kernel.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::config_file::{self, ConfigFileContext, LoadConfig};
use super::servers::{ProcessContext, health_checks};
use super::{families, servers, setup, sources};
use crate::config::Config;
use crate::events::Recorder;
use crate::sync::SyncMode;
use crate::telemetry::LogLevel;
use crate::watch::change_channels;

/// Time that a running restore gets to finish after a shutdown was requested. Kubernetes kills
/// after 30 s by default.
const GRACE: Duration = Duration::from_secs(20);

/// Time that the API server gets to store the Event about a failure.
const EVENT_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs until SIGTERM or SIGINT, or until the configuration file changes to another valid
/// configuration. `load` validates it. The rules stay in the kernel.
pub(crate) fn run(config: &Config, load: &LoadConfig<'_>, log: LogLevel) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(daemon(config, load, log));
    // A thread that reads manifests may hang in a read that never returns.
    runtime.shutdown_background();
    result
}

async fn daemon(config: &Config, load: &LoadConfig<'_>, log: LogLevel) -> anyhow::Result<()> {
    let mut signals = ShutdownSignals::catch()?;
    let stop = CancellationToken::new();
    let metrics = servers::metrics()?;
    let (checks, writer) = health_checks(config);
    let (senders, receivers) = change_channels(Some(&metrics.sync));
    // Without a source nothing on the node may be changed.
    let source = sources::open(&config.rules, &metrics.watch).await?;
    let (version, node_name) = (env!("CARGO_PKG_VERSION"), &config.rules.node_name);
    log_start(config.mode, version, node_name);
    setup::prepare(config)?;
    let shutdown = signals.shutdown(ConfigFileContext {
        file: config.file.as_ref(),
        load,
        recorder: &checks.recorder,
        metrics: &metrics,
    });
    tokio::pin!(shutdown);
    let source = sources::run(source, node_name, senders, &metrics, writer);
    tokio::pin!(source);
    let watchdog = servers::watchdog(config);
    let shared = ProcessContext {
        watchdog,
        stop: stop.clone(),
    };
    let (status_pages, family_pages) = servers::status_pages(config, &metrics);
    let servers = servers::run(config, &checks, (&metrics, status_pages), log, &shared);
    let inputs = (receivers, family_pages);
    let families = families::run(config, inputs, &checks, &metrics, &shared);
    let work = async { tokio::try_join!(families, servers).map(drop) };
    tokio::pin!(work);

    let result = tokio::select! {
        // A source ends only with an error, and the rest only after `stop` or with an error.
        result = &mut source => return result,
        result = &mut work => {
            flush_events(&checks.recorder, source).await;
            return result;
        }
        result = &mut shutdown => result,
    };
    stop.cancel();
    tokio::time::timeout(GRACE, work)
        .await
        .unwrap_or_else(|_| {
            warn!("restore still running {GRACE:?} after the shutdown began; killing it");
            Ok(())
        })?;
    result
}

fn log_start(mode: SyncMode, version: &str, node: &str) {
    match mode {
        SyncMode::Restore => info!(version, node, "starting"),
        SyncMode::DryRun => info!(
            version,
            node,
            "starting a dry run: payloads are printed, nothing is restored, no port is opened"
        ),
        SyncMode::Shadow => info!(
            version,
            node,
            "starting in shadow mode: rules are compared with those of the running kube-proxy, \
             nothing is written"
        ),
    }
}

/// Signals that shut the process down, caught from the start.
struct ShutdownSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl ShutdownSignals {
    fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for a signal or a changed configuration file.
    ///
    /// # Errors
    ///
    /// The configuration changed: the process exits as after a failure, to be restarted.
    async fn shutdown(&mut self, file: ConfigFileContext<'_>) -> anyhow::Result<()> {
        let signal = tokio::select! {
            changed = config_file::changed(&file) => return Err(changed.into()),
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        info!("received {signal}: shutting down; the rules stay in place");
        Ok(())
    }
}

/// Waits until recorded Events reach the API server; `source` sends them.
async fn flush_events(recorder: &Recorder, source: impl Future) {
    let flushed = tokio::time::timeout(EVENT_TIMEOUT, recorder.flush());
    tokio::select! {
        _ = source => {}
        _ = flushed => {}
    }
}
