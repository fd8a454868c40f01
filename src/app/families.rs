//! One syncer for each family this machine can do.
//!
//! Apart because what a machine can do is found out here: its programs, their versions, and what
//! the kernel was told by others.

use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use futures::future::join_all;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::config::{Config, FULL_SYNC_PERIOD, Source};
use crate::health::{Health, NodeState};
use crate::host::{
    DryRun, Exec, Iptables, Options as ExecOptions, Programs, ROUTE_LOCALNET, RunError, Sysctls,
    TCP_BE_LIBERAL,
};
use crate::model::Change;
use crate::net::{IpFamily, PerFamily};
use crate::render::{InvalidPackets, LocalhostNodePorts};
use crate::sync::{Clock, Pacer, Reporter, Surroundings, Syncer, SyncerOptions, Task};
use crate::telemetry::Metrics;
use crate::tracker::Tracker;

/// How long to wait before the programs are looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What a family's task is made of, the programs aside.
struct Parts<'a> {
    config: &'a Config,
    surroundings: Surroundings,
    reporter: Reporter,
    changes: UnboundedReceiver<Change>,
    stop: &'a CancellationToken,
}

/// Runs the syncers of both families until stopped.
pub(super) async fn run(
    config: &Config,
    changes: PerFamily<UnboundedReceiver<Change>>,
    health: &Health,
    metrics: &Metrics,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let Some(programs) = find_programs(config, stop).await else {
        return Ok(());
    };
    // Nobody need write a manifest for the very machine this runs on.
    let without_node = match config.rules.source {
        Source::Cluster { .. } => NodeState::Unknown,
        Source::Manifests { .. } => NodeState::Eligible,
    };
    let mut tasks = Vec::new();
    let families = changes.into_pairs().into_iter().zip(programs.into_pairs());
    for ((family, changes), (_, programs)) in families {
        let Some(programs) = programs else { continue };
        let surroundings = surroundings(config, &programs)?;
        let (metrics, health) = (metrics.sync.clone(), health.clone());
        let reporter = Reporter {
            family,
            metrics,
            health,
            without_node,
        };
        let parts = Parts {
            config,
            surroundings,
            reporter,
            changes,
            stop,
        };
        tasks.push(run_one(parts, Exec::new(programs, ExecOptions::default())));
    }
    join_all(tasks).await;
    Ok(())
}

async fn run_one(parts: Parts<'_>, exec: Exec) {
    if parts.config.is_dry_run {
        let family = parts.reporter.family;
        parts.into_task(DryRun::new(family, exec)).run().await;
    } else {
        parts.into_task(exec).run().await;
    }
}

impl Parts<'_> {
    fn into_task<I: Iptables>(self, iptables: I) -> Task<I> {
        let config = self.config;
        let options = SyncerOptions {
            surroundings: self.surroundings,
            shape: config.shape,
            full_every: FULL_SYNC_PERIOD,
        };
        let (clock, started) = clocks();
        Task {
            syncer: Syncer::new(iptables, Tracker::new(started), options, clock),
            pacer: Pacer::new(config.pacer),
            reporter: self.reporter,
            changes: self.changes,
            look_every: (!config.is_dry_run).then_some(config.sync_period),
            stop: self.stop.clone(),
        }
    }
}

/// Looks for the programs until at least one family has them; `None` if stopped before. A machine
/// without iptables may be one that is still being set up.
async fn find_programs(
    config: &Config,
    stop: &CancellationToken,
) -> Option<PerFamily<Option<Programs>>> {
    loop {
        let v4 = find(config, IpFamily::V4).await;
        let v6 = find(config, IpFamily::V6).await;
        if v4.is_some() || v6.is_some() {
            return Some(PerFamily { v4, v6 });
        }
        error!("no family can be programmed; looking again in {LOOK_AGAIN:?}");
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(LOOK_AGAIN) => {}
        }
    }
}

async fn find(config: &Config, family: IpFamily) -> Option<Programs> {
    if family == IpFamily::V6 && !Sysctls::default().has_ipv6() {
        info!(%family, "this machine has no IPv6");
        return None;
    }
    match programs(config, family).await {
        Ok(programs) => {
            info!(%family, version = %programs.version, "found iptables");
            Some(programs)
        }
        Err(_) if config.is_dry_run => {
            info!(%family, "no iptables here; a dry run does without");
            Some(Programs::assumed(family))
        }
        Err(cause) => {
            warn!(%family, %cause, "cannot be programmed");
            None
        }
    }
}

/// A dry run asks the kernel nothing: that needs no root.
async fn programs(config: &Config, family: IpFamily) -> Result<Programs, RunError> {
    let programs = Programs::discover(config.rules.backend, family).await?;
    if !config.is_dry_run {
        programs.probe().await?;
    }
    Ok(programs)
}

/// What the flags say, with what this machine is.
///
/// Upstream: pkg/proxy/iptables/proxier.go, `NewProxier` (v1.36)
fn surroundings(config: &Config, programs: &Programs) -> anyhow::Result<Surroundings> {
    let mut surroundings = config.rules.surroundings.get(programs.family).clone();
    let fixed = &mut surroundings.fixed;
    fixed.backend = programs.backend();
    fixed.masquerade.is_random_fully = programs.version.features().random_fully;
    let sysctls = Sysctls::default();
    if fixed.localhost_node_ports == LocalhostNodePorts::Allowed && !config.is_dry_run {
        sysctls.ensure(ROUTE_LOCALNET, 1).context(
            "NodePorts on 127.0.0.1 need this setting\n\
             hint: allow it, or set --iptables-localhost-nodeports=false",
        )?;
    }
    if sysctls.read(TCP_BE_LIBERAL).is_ok_and(|value| value != 0) {
        fixed.invalid_packets = InvalidPackets::Forwarded;
    }
    Ok(surroundings)
}

/// The clock of syncs, and when this process began to watch.
#[expect(
    clippy::disallowed_methods,
    reason = "the composition root hands out the clock"
)]
fn clocks() -> (Clock, SystemTime) {
    (Instant::now, SystemTime::now())
}
