//! One syncer for each family this machine can do, on a [thread](super::family_thread) of its own.
//!
//! Apart because what a machine can do is found out here: its programs, their versions, and what
//! the kernel was told by others.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use futures::future::{join, try_join, try_join_all};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Mutex, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::elsewhere;
use super::family_thread;
use super::first_look::{FirstLook, Incoming};
use super::localnet;
use super::programs::{is_lasting, programs, surroundings};
use super::shared::Shared;
use crate::config::{Config, FULL_SYNC_PERIOD, Source};
use crate::health::{CheckServers, Checks, HealthState, NodeState};
use crate::host::{
    Changed, Conntrack, DryRun, Exec, Iptables, Options as ExecOptions, PayloadLog, Programs,
    RunError, Sysctls,
};
use crate::net::IpFamily;
use crate::sync::{
    ChangeReceiver, Clock, FlowSweeper, Pacer, Reporter, Surroundings, Syncer, SyncerOptions, Task,
};
use crate::telemetry::Metrics;
use crate::tracker::Tracker;

/// How long to wait before the programs are looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What a family needs besides its programs.
struct Family {
    config: Arc<Config>,
    reporter: Reporter,
    changes: ChangeReceiver,
    tracker: Tracker,
    first_look: FirstLook,
    checks: Checks,
    flows: Option<FlowSweeper>,
    /// Families look for their programs one after the other: the wrapper of the official image puts
    /// links in place when it is started first, and fails when two do so.
    turn: Arc<Mutex<()>>,
    payloads: Option<PayloadLog>,
    stop: CancellationToken,
}

/// Runs the syncers of both families until stopped.
pub(super) async fn run(
    config: &Config,
    incoming: Incoming,
    checks: &Checks,
    metrics: &Metrics,
    process: &Shared,
) -> anyhow::Result<()> {
    let Shared {
        watchdog,
        payloads,
        stop,
    } = process;
    // Nobody need write a manifest for the very machine this runs on.
    let without_node = match config.rules.source {
        Source::Cluster(_) => NodeState::Unknown,
        Source::Manifests { .. } => NodeState::Eligible,
    };
    let Incoming {
        changes,
        first_look,
    } = incoming;
    let flows = if config.is_dry_run {
        None
    } else {
        let sweeper = FlowSweeper::start(Conntrack::default(), metrics.sync.clone(), clocks().0);
        Some(sweeper.context("cannot start a thread for stale UDP flows")?)
    };
    let (shared, turn) = (Arc::new(config.clone()), Arc::new(Mutex::new(())));
    let families = changes.into_pairs().map(|(family, changes)| {
        let (metrics, health) = (metrics.sync.clone(), checks.health.clone());
        let reporter = Reporter {
            family,
            metrics,
            health,
            without_node,
            checks: None,
            recorder: checks.recorder.clone(),
            node_name: checks.node_name.clone(),
        };
        let external_ips = shared.rules.surroundings.get(family).fixed.external_ips;
        let tracker = Tracker::new(clocks().1).with_external_ips(external_ips);
        let family_parts = Family {
            config: Arc::clone(&shared),
            reporter,
            changes,
            tracker,
            first_look: first_look.clone(),
            checks: checks.clone(),
            flows: flows.clone(),
            turn: Arc::clone(&turn),
            payloads: payloads.clone(),
            stop: stop.clone(),
        };
        family_thread::run(family, watchdog, || family_parts.run())
    });
    try_join(try_join_all(families), first_look.run(config, stop))
        .await
        .map(drop)
}

impl Family {
    async fn run(mut self) -> anyhow::Result<()> {
        let found = self.find_programs().await;
        if !self.stop.is_cancelled() {
            self.first_look.found(self.reporter.family, found.is_some());
        }
        let Some(programs) = found else {
            self.reporter.given_up();
            return Ok(());
        };
        let surroundings = surroundings(&self.config, &programs)?;
        let (family, used) = (programs.family, programs.backend());
        let exec = Exec::new(programs, ExecOptions::default());
        if self.config.is_dry_run {
            let stop = self.stop.clone();
            self.into_task(surroundings, DryRun::new(family, exec, stop))
                .run()
                .await;
        } else {
            match exec.remove_counter_test().await {
                Ok(Changed::Yes) => info!(%family, "removed a chain that an earlier process left"),
                Ok(Changed::No) => {}
                Err(cause) => {
                    info!(%family, %cause, "a chain of an earlier process stays in mangle");
                }
            }
            let servers = CheckServers::new(self.checks.clone(), family);
            let (checks, changes) = unbounded_channel();
            self.reporter.checks = Some(checks);
            let is_needed = surroundings.needs_route_localnet();
            let (applied, first_applied) = oneshot::channel();
            let mut exec = exec;
            if let Some(log) = &self.payloads {
                exec.log_payloads(log.clone());
            }
            if let Err(cause) = exec.watch_tables() {
                warn!(
                    %family, %cause,
                    "cannot watch for changes of our rules by other programs: checking every sync \
                     period instead"
                );
            }
            let mut task = self.into_task(surroundings, exec);
            task.first_applied = Some(applied);
            // The servers end when the task does.
            let work = join(task.run(), servers.run(changes));
            tokio::select! {
                _ = work => {}
                never = elsewhere::watch(family, used) => never,
                never = localnet::open_after(first_applied, is_needed) => never,
            }
        }
        Ok(())
    }

    fn into_task<I: Iptables>(self, surroundings: Surroundings, iptables: I) -> Task<I> {
        let config = &self.config;
        let backend = surroundings.fixed.backend;
        let options = SyncerOptions {
            surroundings,
            shape: config.shape,
            full_every: FULL_SYNC_PERIOD,
        };
        Task {
            syncer: Syncer::new(iptables, self.tracker, options, clocks().0),
            pacer: Pacer::new(config.pacer, backend),
            reporter: self.reporter,
            flows: self.flows,
            changes: self.changes,
            look_every: (!config.is_dry_run).then_some(config.sync_period),
            verify_every: config.verify_interval,
            first_applied: None,
            stop: self.stop,
        }
    }

    /// Looks for the programs until they work; `None` if this machine does without the family, or
    /// if stopped before. A machine without iptables may be one that is still being set up, so a
    /// family is given up only if it is missing twice beside the other.
    ///
    /// Differs from upstream: that ends if neither can be programmed.
    async fn find_programs(&mut self) -> Option<Programs> {
        let (config, family) = (Arc::clone(&self.config), self.reporter.family);
        if Sysctls::default().lacks(family) {
            info!(%family, "this machine has no IPv6");
            return None;
        }
        let mut was_missing = false;
        // Until they are found, it is that which is waited for.
        self.health(|health| health.started(family, clocks().0()));
        loop {
            let looked = tokio::select! {
                () = self.stop.cancelled() => return None,
                looked = self.programs(family) => looked,
            };
            match looked {
                Ok(programs) => {
                    info!(%family, version = %programs.version, "found iptables");
                    self.health(|health| health.forget(family));
                    return Some(programs);
                }
                Err(_) if config.is_dry_run => {
                    info!(%family, "no iptables here; a dry run does without");
                    return Some(Programs::assumed(family));
                }
                Err(cause) if is_lasting(&cause) && self.programs(family.other()).await.is_ok() => {
                    if was_missing {
                        warn!(%family, %cause, "cannot be programmed; doing without it");
                        self.health(|health| health.forget(family));
                        return None;
                    }
                    info!(%family, %cause, "cannot be programmed; looking once more in {LOOK_AGAIN:?}");
                    was_missing = true;
                }
                Err(cause) => {
                    error!(%family, %cause, "cannot be programmed; looking again in {LOOK_AGAIN:?}");
                    was_missing = false;
                }
            }
            if !self.pause().await {
                return None;
            }
        }
    }

    fn health(&self, change: impl FnOnce(&mut HealthState)) {
        self.reporter.health.update(change);
    }

    async fn programs(&self, family: IpFamily) -> Result<Programs, RunError> {
        let _turn = self.turn.lock().await;
        programs(&self.config, family).await
    }

    /// Waits, and takes in what changes meanwhile. False: stopped.
    async fn pause(&mut self) -> bool {
        let over = tokio::time::sleep(LOOK_AGAIN);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return false,
                () = &mut over => return true,
                Some(changes) = self.changes.recv() => {
                    for change in changes {
                        self.reporter.change(&change);
                        self.tracker.apply(change);
                    }
                    self.reporter.pending(&self.tracker);
                }
            }
        }
    }
}

/// The clock of syncs, and when this process began to watch.
#[expect(
    clippy::disallowed_methods,
    reason = "the composition root hands out the clock"
)]
fn clocks() -> (Clock, SystemTime) {
    (Instant::now, SystemTime::now())
}
