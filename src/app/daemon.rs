//! The life of the daemon: its parts are built, started, and ended in order.
//!
//! Apart from the parts so that the order of all of it can be read at once: nothing is set before
//! there is a source, nothing waits where it could not be asked to end, and rules stay.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::config_file::Judge;
use super::ending::Ending;
use super::shared::{Shared, payload_log};
use super::{checks, ending, families, first_look, servers, setup, sources};
use crate::config::Config;
use crate::telemetry::LogLevel;

/// How long a restore under way may take to end once the process is told to. Kubernetes kills
/// after 30 s by default.
const GRACE: Duration = Duration::from_secs(20);

/// Runs until SIGTERM or SIGINT, or until the configuration file changes to something else that can
/// be run with, by the word of `judge`. The rules stay in the kernel.
pub fn run(config: &Config, judge: &Judge<'_>, log: LogLevel) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(daemon(config, judge, log));
    // A thread that reads manifests may sit in a read that never returns.
    runtime.shutdown_background();
    result
}

async fn daemon(config: &Config, judge: &Judge<'_>, log: LogLevel) -> anyhow::Result<()> {
    let mut ending = Ending::prepare()?;
    let stop = CancellationToken::new();
    let metrics = servers::metrics()?;
    let (checks, writer) = checks::prepare(config);
    let (sink, incoming) = first_look::begin(&metrics.sync);
    // Without a source nothing is to be set on this machine.
    let source = sources::open(&config.rules, &metrics.watch).await?;
    let (version, node_name) = (env!("CARGO_PKG_VERSION"), &config.rules.node_name);
    info!(version, node = node_name, "starting");
    setup::begin(config)?;
    let asked = ending.asked(
        config.file.as_ref(),
        judge,
        &checks.recorder,
        &metrics.watch,
    );
    tokio::pin!(asked);
    let source = sources::run(source, node_name, sink, &metrics.watch, writer);
    tokio::pin!(source);
    let watchdog = servers::watchdog(config);
    let shared = Shared {
        watchdog,
        payloads: payload_log(config),
        stop: stop.clone(),
    };
    let servers = servers::run(config, &checks, &metrics, log, &shared);
    let families = families::run(config, incoming, &checks, &metrics, &shared);
    let kept = async { tokio::try_join!(families, servers).map(drop) };
    tokio::pin!(kept);

    let asked = tokio::select! {
        // A source only ends with an error, and the others only when they are told to.
        result = &mut source => return result,
        result = &mut kept => {
            ending::tell(&checks.recorder, source).await;
            return result;
        }
        asked = &mut asked => asked,
    };
    stop.cancel();
    tokio::time::timeout(GRACE, kept)
        .await
        .unwrap_or_else(|_| {
            warn!("a restore did not end within {GRACE:?} and is killed");
            Ok(())
        })?;
    asked
}
