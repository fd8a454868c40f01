//! Reads the counters of dispatch rules for the metric of connections, alongside the syncs of a
//! family: a reading changes nothing, and a sync waits at most for the parsing of what was read.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::config::Config;
use crate::host::{Exec, ListedChains, RunError};
use crate::rules::{Backend, Table};
use crate::ruleset::{CountedJump, KUBE_NODEPORTS, KUBE_SERVICES, tree_of};
use crate::sync::SyncMode;
use crate::telemetry::{ConnectionMetrics, ConnectionReading, Metrics, on_one_line};

/// Minimum time between readings.
const MIN_PAUSE: Duration = Duration::from_secs(30);

/// Pause after a reading, as a multiple of its time. The program prints while its output is parsed,
/// so that a reading may use two CPUs: this limits it to 1 % of one.
const PAUSE_FACTOR: u32 = 200;

/// Registers the metrics, with `--service-metrics`.
pub(super) fn metrics(config: &Config, all: &Metrics) -> anyhow::Result<Option<ConnectionMetrics>> {
    let is_wanted = config.has_service_metrics && config.mode == SyncMode::Restore;
    let metrics = is_wanted.then(|| ConnectionMetrics::register(&all.registry));
    Ok(metrics.transpose()?)
}

/// Exports the connections to service ports of a family, again and again; never returns without
/// metrics.
pub(super) async fn count<T>(exec: &Exec, metrics: Option<&ConnectionMetrics>) -> T {
    let Some(metrics) = metrics else {
        return std::future::pending().await;
    };
    let family = exec.binaries().family;
    loop {
        let started = Instant::now();
        match read(exec).await {
            Ok(Some(reading)) => metrics.read(family, &reading),
            Err(cause) => {
                let cause = on_one_line(&cause.to_string());
                warn!(
                    %family, %cause,
                    "cannot read the counters of rules; connections to Services are not exported \
                     until it succeeds"
                );
            }
            // A chain is missing.
            Ok(None) => {}
        }
        sleep(
            started
                .elapsed()
                .saturating_mul(PAUSE_FACTOR)
                .max(MIN_PAUSE),
        )
        .await;
    }
}

/// Reads the rules of all frontends; `None` if a chain does not exist.
async fn read(exec: &Exec) -> Result<Option<ConnectionReading>, RunError> {
    let mut reading = ConnectionReading::default();
    if exec.binaries().backend() == Backend::Legacy {
        // Every reading of a legacy table is one of the whole table, so one run is enough.
        let binaries = exec.binaries();
        binaries
            .save_counters(&mut |line| add(&mut reading, line))
            .await?;
        return Ok(Some(reading));
    }
    let mut chains: Vec<String> = [KUBE_SERVICES, KUBE_NODEPORTS].map(str::to_owned).into();
    while !chains.is_empty() {
        let names: Vec<&str> = chains.iter().map(String::as_str).collect();
        let text = match exec.list_counters(&names).await? {
            ListedChains::Whole(text) => text,
            ListedChains::Missing => return Ok(None),
            ListedChains::Truncated { cause, .. } => return Err(cause),
        };
        chains.clear();
        for line in text.lines() {
            add(&mut reading, line);
            chains.extend(tree_chain(line).map(str::to_owned));
        }
    }
    Ok(Some(reading))
}

fn add(reading: &mut ConnectionReading, line: &str) {
    if let Some(jump) = CountedJump::parse(line)
        && jump.is_of_frontend()
        && let Some(port) = jump.service_port()
    {
        reading.add(port, jump.key(), jump.connections);
    }
}

/// Returns the tree chain that a rule jumps to.
fn tree_chain(line: &str) -> Option<&str> {
    let (_, target) = line.rsplit_once(" -j ")?;
    tree_of(Table::Nat, target).map(|_| target)
}
