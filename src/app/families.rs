//! Runs one syncer for each family that iptables is usable for, on a thread of its own.
//!
//! A family that renders tens of thousands of Services computes for seconds: on a thread of its
//! own it delays neither the other family nor the watches of the API server.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use futures::future::{FutureExt, try_join, try_join_all};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, unbounded_channel};
use tokio::sync::{Mutex, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::servers::{FamilyPages, ProcessContext, history};
use super::setup::{complete_after, find_binaries, is_permanent, render_settings};
use super::startup_checks::StartupChecks;
use super::{connections, conntrack_sweeper};
use crate::clock;
use crate::config::{Config, FULL_SYNC_PERIOD, Source};
use crate::conntrack::SweepRequest;
use crate::health::{CheckServerContext, CheckServers, HealthState, NodeState, Watchdog};
use crate::history::{HistoryLog, HistoryWriter};
use crate::host::{
    AddressWatch, BackendChoice, Binaries, Conntrack, DryRun, Exec, FailedPayloads, Iptables,
    OtherBackendSigns, OwnTransactions, RunError, Sysctls, UnsharedLock, kubelet_backend,
    other_backend, other_backend_signs,
};
use crate::net::{IpFamily, PerFamily};
use crate::render::RenderSettings;
use crate::rules::Backend;
use crate::shadow::ShadowTask;
use crate::status::{FamilyRequest, ShadowLog};
use crate::sync::{Pacer, Reporter, SyncMode, Syncer, SyncerOptions, Task};
use crate::telemetry::{ConnectionMetrics, Metrics, ShadowMetrics, SyncMetrics, on_one_line};
use crate::tracker::Tracker;
use crate::watch::{ChangeReceiver, ChangeReceivers};

/// Interval of checks of the other backend: each starts half a dozen short processes, for a change
/// that happens once in the life of a node.
const OTHER_BACKEND_INTERVAL: Duration = Duration::from_secs(600);

/// Interval of checks for signs of rules in the other backend, which take one small read.
const SIGNS_INTERVAL: Duration = Duration::from_secs(10);

/// Retry delay of the search for usable iptables binaries.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Parts of a family that exist before its iptables binaries are found.
struct FamilyRunner {
    config: Arc<Config>,
    reporter: Reporter,
    changes: ChangeReceiver,
    requests: mpsc::Receiver<FamilyRequest>,
    shadow: (ShadowLog, ShadowMetrics),
    tracker: Tracker,
    startup_checks: StartupChecks,
    checks: CheckServerContext,
    sweeper: Option<Sender<SweepRequest>>,
    /// Serializes the searches of both families: the wrapper of the official image creates links
    /// on its first start, and fails if two first starts overlap.
    search_lock: Arc<Mutex<()>>,
    transactions: Arc<OwnTransactions>,
    /// Metrics of connections, with `--service-metrics`.
    connections: Option<ConnectionMetrics>,
    /// Writer of failed payloads, with `--state-dir`.
    history: Option<HistoryWriter>,
    stop: CancellationToken,
}

/// Runs the syncers of both families until stopped.
pub(super) async fn run(
    config: &Config,
    (changes, pages): (ChangeReceivers, PerFamily<FamilyPages>),
    checks: &CheckServerContext,
    metrics: &Metrics,
    process: &ProcessContext,
) -> anyhow::Result<()> {
    let ProcessContext { watchdog, stop } = process;
    // Manifests need no Node object for this node.
    let without_node = match config.rules.source {
        Source::Cluster(_) => NodeState::Unknown,
        Source::Manifests { .. } => NodeState::Eligible,
    };
    let ChangeReceivers {
        families: changes,
        first_node,
    } = changes;
    let startup_checks = StartupChecks::new();
    let sweeper = sweeper(config, metrics)?;
    let connections = connections::metrics(config, metrics)?;
    let history = history(config, metrics)?;
    let (shared, search_lock) = (Arc::new(config.clone()), Arc::new(Mutex::new(())));
    let transactions = Arc::<OwnTransactions>::default();
    let families = changes.into_pairs().into_iter().zip(pages.into_pairs());
    let families = families.map(|((family, changes), (_, pages))| {
        let shadow_metrics = metrics.shadow.clone();
        let (metrics, health) = (metrics.sync.clone(), checks.health.clone());
        let reporter = Reporter {
            family,
            mode: config.mode,
            metrics,
            health,
            without_node,
            health_check_servers: None,
            recorder: checks.recorder.clone(),
            node_name: checks.node_name.clone(),
            log: pages.log,
            history: history.clone().map(|one| HistoryLog::new(one, family)),
        };
        let external_ips = shared.rules.render_settings.get(family).fixed.external_ips;
        let tracker = Tracker::new(clock::wall()).with_external_ips(external_ips);
        let runner = FamilyRunner {
            config: Arc::clone(&shared),
            reporter,
            changes,
            requests: pages.requests,
            shadow: (pages.shadow, shadow_metrics),
            tracker,
            startup_checks: startup_checks.clone(),
            checks: checks.clone(),
            sweeper: sweeper.clone(),
            search_lock: Arc::clone(&search_lock),
            transactions: Arc::clone(&transactions),
            connections: connections.clone(),
            history: history.clone(),
            stop: stop.clone(),
        };
        run_on_thread(family, watchdog, || runner.run())
    });
    try_join(
        try_join_all(families),
        startup_checks.run(config, first_node, stop),
    )
    .await
    .map(drop)
}

/// Starts the thread that deletes stale conntrack entries, if restores are made.
fn sweeper(config: &Config, metrics: &Metrics) -> anyhow::Result<Option<Sender<SweepRequest>>> {
    if config.mode != SyncMode::Restore {
        return Ok(None);
    }
    let sweeper =
        conntrack_sweeper::start(Conntrack::default(), metrics.sync.clone(), clock::instant);
    let sweeper =
        sweeper.context("cannot start the thread that deletes stale conntrack entries")?;
    Ok(Some(sweeper))
}

impl FamilyRunner {
    async fn run(mut self) -> anyhow::Result<()> {
        let found = self.wait_for_binaries().await;
        if !self.stop.is_cancelled() {
            self.startup_checks
                .set_usable(self.reporter.family, found.is_some());
        }
        let Some(binaries) = found else {
            self.reporter.family_disabled();
            return Ok(());
        };
        let render_settings = render_settings(&self.config, &binaries)?;
        let family = binaries.family;
        match self.config.mode {
            SyncMode::Restore => Box::pin(self.restore(binaries, render_settings)).await?,
            SyncMode::DryRun => {
                let stop = self.stop.clone();
                let exec = Exec::new(binaries);
                let task = self.into_task(render_settings, DryRun::new(family, exec, stop));
                task.run().await;
            }
            SyncMode::Shadow => {
                let used = binaries.backend();
                let (log, metrics) = (self.shadow.0.clone(), self.reporter.metrics.clone());
                let task = self.into_shadow_task(binaries, render_settings);
                let log = |other| log.set_other_backend(other);
                tokio::select! {
                    () = task.run() => {}
                    never = warn_of_other_backend((family, used), SyncMode::Shadow, log, &metrics)
                        => never,
                }
            }
        }
        Ok(())
    }

    /// Keeps the rules up to date.
    async fn restore(
        mut self,
        binaries: Binaries,
        render_settings: RenderSettings,
    ) -> anyhow::Result<()> {
        let (family, used) = (binaries.family, binaries.backend());
        let mut exec = Exec::new(binaries);
        let servers = CheckServers::new(self.checks.clone(), family);
        let (checks, changes) = unbounded_channel();
        self.reporter.health_check_servers = Some(checks);
        let needs_localnet = render_settings.needs_route_localnet();
        let (applied, first_applied) = oneshot::channel();
        if let Some(history) = self.history.take() {
            let keep = move |text| history.failed_payload(family, text);
            exec.keep_failed_payloads(FailedPayloads(Rc::new(keep)));
        }
        self.watch_tables(&mut exec);
        let watching = exec.clone();
        let (log, metrics) = (self.reporter.log.clone(), self.reporter.metrics.clone());
        let log = move |other| log.update(|status| status.other_backend = other);
        let connections = self.connections.take();
        let mut task = self.into_task(render_settings, exec);
        task.first_applied = Some(applied);
        // The servers of health check node ports end with the task.
        let work = try_join(task.run().map(Ok), servers.run(changes));
        tokio::select! {
            result = work => {
                result.context("cannot start the thread of health checks")?;
            }
            never = warn_of_other_backend((family, used), SyncMode::Restore, log, &metrics) => never,
            never = warn_of_unshared_lock(family, &watching) => never,
            never = complete_after(first_applied, family, needs_localnet) => never,
            never = connections::count(&watching, connections.as_ref()) => never,
        }
        Ok(())
    }

    /// Watches the tables for changes by other programs, or warns that it cannot.
    fn watch_tables(&self, exec: &mut Exec) {
        if let Err(cause) = exec.watch_tables(&self.transactions) {
            let cause = on_one_line(&cause.to_string());
            warn!(
                family = %self.reporter.family, %cause,
                "cannot watch for rule changes by other programs; checking periodically instead"
            );
        }
    }

    fn into_shadow_task(
        self,
        binaries: Binaries,
        render_settings: RenderSettings,
    ) -> ShadowTask<Exec> {
        let backend = binaries.backend();
        let mut exec = Exec::new(binaries);
        self.watch_tables(&mut exec);
        let (log, metrics) = self.shadow;
        ShadowTask {
            iptables: exec,
            tracker: self.tracker,
            pacer: Pacer::new(self.config.pacer, backend),
            render_settings,
            reporter: self.reporter,
            changes: self.changes,
            log,
            metrics,
            started: clock::wall(),
            stop: self.stop,
        }
    }

    fn into_task<I: Iptables>(self, render_settings: RenderSettings, iptables: I) -> Task<I> {
        let config = &self.config;
        let (family, backend) = (self.reporter.family, render_settings.fixed.backend);
        let options = SyncerOptions {
            render_settings,
            partial_restore: config.partial_restore,
            full_sync_interval: FULL_SYNC_PERIOD,
        };
        Task {
            syncer: Syncer::new(iptables, self.tracker, options, clock::instant),
            pacer: Pacer::new(config.pacer, backend),
            reporter: self.reporter,
            sweeper: self.sweeper,
            changes: self.changes,
            address_watch: AddressWatch::start(family)
                .inspect_err(|cause| log_unwatched_addresses(family, cause))
                .ok(),
            check_interval: (config.mode == SyncMode::Restore).then_some(config.sync_period),
            verify_interval: config.verify_interval,
            first_applied: None,
            requests: self.requests,
            stop: self.stop,
        }
    }

    /// Searches for usable iptables binaries until there are some. Returns `None` if the family is
    /// disabled, or if stopped before. A node without iptables may still be in setup, so a family
    /// is disabled only if its binaries fail twice while those of the other family work.
    ///
    /// Differs from upstream: kube-proxy exits if neither family is usable.
    async fn wait_for_binaries(&mut self) -> Option<Binaries> {
        let (config, family) = (Arc::clone(&self.config), self.reporter.family);
        if Sysctls::default().lacks(family) {
            info!(%family, "the kernel has no IPv6; IPv6 is disabled");
            return None;
        }
        let mut has_failed = false;
        // Health counts the search as a sync that has not ended.
        self.health(|health| health.queued(family, clock::instant()));
        loop {
            let found = tokio::select! {
                () = self.stop.cancelled() => return None,
                found = self.find_binaries(family) => found,
            };
            match found {
                Ok(binaries) => {
                    info!(%family, version = %binaries.version, "found iptables");
                    self.log_binaries(&binaries).await;
                    self.health(|health| health.forget(family));
                    return Some(binaries);
                }
                Err(_) if config.mode == SyncMode::DryRun => {
                    info!(%family, "no usable iptables found; the dry run assumes usual ones");
                    return Some(Binaries::assumed(family));
                }
                Err(cause)
                    if is_permanent(&cause) && self.find_binaries(family.other()).await.is_ok() =>
                {
                    let cause = on_one_line(&cause.to_string());
                    if has_failed {
                        warn!(
                            %family, %cause,
                            "iptables is not usable for {family}; {family} is disabled: {family} \
                             rules of Services are no longer updated on this node. If the cluster \
                             uses {family}, fix the cause and restart"
                        );
                        self.health(|health| health.forget(family));
                        return None;
                    }
                    info!(
                        %family, %cause,
                        "iptables is not usable for {family}; retrying once in {RETRY_DELAY:?}"
                    );
                    has_failed = true;
                }
                Err(cause) => {
                    let cause = on_one_line(&cause.to_string());
                    error!(
                        %family, %cause,
                        "iptables is not usable for {family}; retrying in {RETRY_DELAY:?}, changes of \
                         Services have no effect until it succeeds. If this repeats, check the \
                         iptables binaries, their privileges and kernel modules"
                    );
                    has_failed = false;
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

    async fn find_binaries(&self, family: IpFamily) -> Result<Binaries, RunError> {
        let _lock = self.search_lock.lock().await;
        find_binaries(&self.config, family).await
    }

    /// Notes the binaries for the pages.
    async fn log_binaries(&self, binaries: &Binaries) {
        let reason = backend_reason(self.config.rules.backend, binaries).await;
        self.reporter.log.update(|status| {
            reason.clone_into(&mut status.backend_reason);
            status.backend = binaries.backend().to_string();
            status.iptables_version = binaries.version.to_string();
        });
    }

    /// Waits for the retry delay, and applies changes to the tracker meanwhile. Returns false if
    /// stopped.
    async fn pause(&mut self) -> bool {
        let delay = tokio::time::sleep(RETRY_DELAY);
        tokio::pin!(delay);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return false,
                () = &mut delay => return true,
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

fn log_unwatched_addresses(family: IpFamily, cause: &std::io::Error) {
    info!(
        %family, %cause,
        "cannot watch the addresses of this node; checking every sync period instead"
    );
}

/// Warns once if the other backend has rules of a proxy, and once if kubelet uses the other
/// backend.
///
/// The backend stays the same all the same: packets traverse the rules of both, so switching would
/// be worse than the wrong one. A shadow that reads the wrong one says nothing of kube-proxy.
async fn warn_of_other_backend<T>(
    (family, used): (IpFamily, Backend),
    mode: SyncMode,
    log: impl Fn(String),
    metrics: &SyncMetrics,
) -> T {
    let is_shadow = mode == SyncMode::Shadow;
    let (mut has_warned_of_rules, mut has_warned_of_hint) = (false, is_shadow);
    loop {
        let signs = other_backend_signs(used, family);
        let other = other_backend(used, family).await;
        metrics
            .restores
            .other_backend_has_rules(family, other.is_some());
        let name = other.map(|other| other.to_string());
        log(name.unwrap_or_default());
        if let Some(other) = other
            && !std::mem::replace(&mut has_warned_of_rules, true)
        {
            if is_shadow {
                warn!(
                    %family,
                    "backend {other} has rules of a proxy, and those of {used} are compared; if \
                     kube-proxy writes {other}, set `--iptables-backend={other}`"
                );
            } else {
                warn!(
                    %family,
                    "backend {other} has rules of a proxy as well, and packets traverse both; \
                     `deltaproxy cleanup --iptables-backend={other}` removes them, \
                     `--iptables-backend={other}` would update them instead of those of {used}"
                );
            }
        }
        if !has_warned_of_hint
            && let Some(hinted) = kubelet_backend(family).await
            && hinted != used
        {
            has_warned_of_hint = true;
            warn!(
                %family,
                "kubelet uses backend {hinted}, but rules are written with {used}; without \
                 `--iptables-backend` a restart would choose {hinted}"
            );
        }
        wait_for_other_signs(family, used, &signs).await;
    }
}

/// Waits until the signs of rules in the other backend change, or for [`OTHER_BACKEND_INTERVAL`].
async fn wait_for_other_signs(family: IpFamily, used: Backend, signs: &OtherBackendSigns) {
    let until = tokio::time::Instant::now() + OTHER_BACKEND_INTERVAL;
    while tokio::time::Instant::now() < until && other_backend_signs(used, family) == *signs {
        tokio::time::sleep(SIGNS_INTERVAL).await;
    }
}

/// Returns the reason for which a choice led to these binaries.
async fn backend_reason(choice: BackendChoice, binaries: &Binaries) -> &'static str {
    let is_plain = binaries.iptables == "iptables" || binaries.iptables == "ip6tables";
    match choice {
        BackendChoice::Nft | BackendChoice::Legacy => "--iptables-backend",
        BackendChoice::Path => "plain names in PATH",
        BackendChoice::Auto if is_plain => "plain names in PATH, no hint of kubelet",
        BackendChoice::Auto => match kubelet_backend(binaries.family).await {
            Some(hinted) if hinted == binaries.backend() => "hint of kubelet",
            _ => "plain names in PATH are unusable",
        },
    }
}

/// Warns once if programs change rules without the xtables lock of this process. Two restores at
/// the same time lose the changes of one of them, which only a verification finds.
async fn warn_of_unshared_lock<T>(family: IpFamily, exec: &Exec) -> T {
    let (path, evidence) = exec.unshared_lock().await;
    let (lock, evidence) = (
        path.display(),
        match evidence {
            UnsharedLock::Deleted => "the file was deleted on the host",
            UnsharedLock::Bypassed => "rules changed although no program opened it",
        },
    );
    warn!(
        %family, %lock,
        "the xtables lock is not shared by all programs of this node: {evidence}. Concurrent \
         changes of rules can be lost until the next verification; make sure that \
         /run/xtables.lock of the host is mounted, and restart the Pod"
    );
    std::future::pending().await
}

/// Time that a thread gets to kill its restore when the process exits. A thread that still
/// computes is abandoned then; the kernel never applies a part of a table.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// Running thread. Dropping it cancels the work, which kills a restore.
struct RunningThread {
    cancel: CancellationToken,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl Drop for RunningThread {
    fn drop(&mut self) {
        self.cancel.cancel();
        let _ = self.ended.recv_timeout(KILL_TIMEOUT);
    }
}

/// Runs the work on a thread with a runtime of its own, and waits until it ends. The watchdog
/// notices a thread that stalls.
///
/// # Errors
///
/// Errors of the work; or the thread or its runtime cannot be started.
async fn run_on_thread<F: Future<Output = anyhow::Result<()>>>(
    family: IpFamily,
    watchdog: &Watchdog,
    work: impl FnOnce() -> F + Send + 'static,
) -> anyhow::Result<()> {
    let watchdog = watchdog.clone();
    let cancel = CancellationToken::new();
    let (result, returned) = oneshot::channel();
    let (ends, ended) = channel();
    let running = RunningThread {
        cancel: cancel.clone(),
        ended,
    };
    let body = move || {
        let _ends: Sender<()> = ends;
        let done = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Into::into)
            .and_then(|runtime| {
                runtime.block_on(async {
                    let heartbeat = watchdog.watch(family.as_str());
                    tokio::select! {
                        done = work() => done,
                        () = cancel.cancelled() => Ok(()),
                        never = heartbeat.beat() => never,
                    }
                })
            });
        // Without a receiver the process is about to exit.
        let _ = result.send(done);
    };
    thread::Builder::new()
        .name(family.as_str().to_owned())
        .spawn(body)
        .with_context(|| format!("cannot start a thread for {family}"))?;
    let done = returned.await;
    drop(running);
    done.with_context(|| format!("the {family} thread ended unexpectedly"))?
}

#[cfg(test)]
#[path = "tests/family_thread.rs"]
mod tests;
