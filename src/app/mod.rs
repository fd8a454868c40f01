//! The composition root of `run`: builds the parts, starts them, ends them in order.
//!
//! Apart so that every part can be read without the others; only this module knows them all.

mod families;
mod servers;
mod sources;

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::Config;
use crate::health::Health;
use crate::host::counted_packets;
use crate::net::PerFamily;
use crate::render::Counter;
use crate::telemetry::{KernelCounts, Metrics};

/// How long a restore under way may take to end once the process is told to. Kubernetes kills
/// after 30 s by default.
const GRACE: Duration = Duration::from_secs(20);

/// Runs until SIGTERM or SIGINT. The rules stay in the kernel.
pub fn run(config: &Config) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(daemon(config));
    // A thread that reads manifests may sit in a read that never returns.
    runtime.shutdown_background();
    result
}

async fn daemon(config: &Config) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let metrics = Metrics::new()?;
    metrics.registry.register(Box::new(KernelCounts::new(
        || counted_packets(Counter::InvalidDropped.name()),
        || counted_packets(Counter::LocalhostNodePorts.name()),
    )?))?;
    let health = Health::new(config.sync_period);
    let (v4, v4_changes) = unbounded_channel();
    let (v6, v6_changes) = unbounded_channel();
    let changes = PerFamily {
        v4: v4_changes,
        v6: v6_changes,
    };

    info!(
        version = env!("CARGO_PKG_VERSION"),
        node = config.rules.node_name,
        "starting"
    );
    let source = sources::run(&config.rules, PerFamily { v4, v6 }, &metrics.watch);
    let servers = servers::run(config, &health, &metrics, &stop);
    let families = families::run(config, changes, &health, &metrics, &stop);
    let kept = async { tokio::try_join!(families, servers).map(drop) };
    tokio::pin!(kept);

    tokio::select! {
        // A source only ends with an error, and the others only when they are told to.
        result = source => return result,
        result = &mut kept => return result,
        _ = terminate.recv() => info!("SIGTERM: ending; the rules stay"),
        _ = interrupt.recv() => info!("SIGINT: ending; the rules stay"),
    }
    stop.cancel();
    tokio::time::timeout(GRACE, kept).await.unwrap_or_else(|_| {
        warn!("a restore did not end within {GRACE:?} and is killed");
        Ok(())
    })
}
