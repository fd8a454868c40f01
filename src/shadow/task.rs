//! Main loop of shadow mode for one IP family: follows the cluster and the tables, and compares
//! both. Restores nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, MissedTickBehavior, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::comparison::{
    COMPARED, Comparison, LateDifferences, Moment, NewVersion, ServiceVersion, TableWrite,
    TableWrites,
};
use super::live::LiveTables;
use crate::clock;
use crate::host::{
    ChangeDetection, ForeignChange, Iptables, RunError, local_addresses, thread_cpu,
};
use crate::model::{Change, ServiceName, ServiceState, Services as _};
use crate::net::IpFamily;
use crate::render::{
    AppliedState, Comments, Counter, FullPayload, LiveChains, Options, PartialRestore,
    RenderSettings, ServiceRules, TreeThresholds, partial_payload, render_service,
};
use crate::rules::{ChainSet, Payload as _};
use crate::status::{
    MOST_DIFFERENCES, ShadowDifference, ShadowFamily, ShadowKind, ShadowLog, ShadowPayloads,
    ShadowReadings,
};
use crate::sync::{Pacer, Reporter, RerenderReason, RunTimes, SyncResult};
use crate::telemetry::{ShadowMetrics, ShadowProxy, on_one_line};
use crate::tracker::Tracker;
use crate::watch::ChangeReceiver;

/// Pause after a reading as a multiple of its CPU time: readings take at most 5 % of one CPU.
const PAUSE_FACTOR: u32 = 19;

/// Minimum pause: a restore changes tables one after the other, milliseconds apart.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// Maximum time from a write to its report, apart from a busy host: that the xtables lock stays
/// closed takes a moment.
const REPORT_DELAY: Duration = Duration::from_millis(30);

/// Interval of checks for late differences and changed node addresses, and for changes of tables
/// that the kernel does not report.
const TICK: Duration = Duration::from_secs(1);

/// Interval of readings if changes of the tables are not detected.
const UNDETECTED_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum writes of the tables that are kept until the next reading.
const MOST_WRITES: usize = 1000;

/// Maximum number of differences in one log line.
const MOST_LOGGED: usize = 5;

/// Parts of the task of one IP family.
pub(crate) struct ShadowTask<I> {
    pub(crate) iptables: I,
    pub(crate) tracker: Tracker,
    pub(crate) pacer: Pacer,
    pub(crate) render_settings: RenderSettings,
    pub(crate) reporter: Reporter,
    pub(crate) changes: ChangeReceiver,
    pub(crate) log: ShadowLog,
    pub(crate) metrics: ShadowMetrics,
    /// Start of the process: earlier trigger times would measure the time before it.
    pub(crate) started: SystemTime,
    pub(crate) stop: CancellationToken,
}

#[derive(Default)]
struct ShadowState {
    comparison: Comparison,
    /// Record of the rules that this program would have written, and the options of these.
    applied: Option<(AppliedState, Options)>,
    has_synced: bool,
    /// States of the dirty Services that were rendered since the last sync.
    rendered: BTreeMap<ServiceName, Option<ServiceState>>,
    live: Option<LiveTables>,
    /// Writes of the tables since the last reading began.
    writes: TableWrites,
    /// Start of the reading that runs.
    reading_since: Option<Instant>,
    /// Another reading is needed: the tables, or the desired rules, have changed since the last one
    /// began.
    is_stale: bool,
    read_not_before: Option<Instant>,
    last_read: Option<Instant>,
    payloads: ShadowPayloads,
    kube_proxy_bytes: u64,
    readings: ShadowReadings,
    has_logged_failure: bool,
}

enum ShadowEvent {
    ClusterChanged(Vec<Change>),
    SyncDue,
    RulesChanged(ForeignChange),
    LockReleased(std::time::Instant),
    ReadingDue,
    Read(LiveTables, Result<(), RunError>),
    Tick,
    Shutdown,
}

impl<I: Iptables + Clone> ShadowTask<I> {
    pub(crate) async fn run(mut self) {
        let mut state = ShadowState {
            is_stale: true,
            ..ShadowState::default()
        };
        if self.tracker.has_listed_all() {
            self.request_sync();
        }
        let mut tick = tokio::time::interval(TICK);
        // A reading takes longer than a tick.
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let iptables = self.iptables.clone();
        // Changes go on while it runs: their times are measured.
        let mut reading = None;
        let mut cpu_before = Duration::ZERO;
        loop {
            let sync = self.pacer.next_due().map(Instant::from_std);
            let due = state.next_reading();
            let event = tokio::select! {
                biased;
                () = self.stop.cancelled() => ShadowEvent::Shutdown,
                // First, because its time is measured.
                change = iptables.changed() => ShadowEvent::RulesChanged(change),
                at = iptables.lock_released() => ShadowEvent::LockReleased(at),
                () = until(sync) => ShadowEvent::SyncDue,
                changes = self.changes.recv() => {
                    changes.map_or(ShadowEvent::Shutdown, ShadowEvent::ClusterChanged)
                }
                (live, result) = finished(&mut reading) => ShadowEvent::Read(live, result),
                () = until(due) => ShadowEvent::ReadingDue,
                _ = tick.tick() => ShadowEvent::Tick,
            };
            match event {
                ShadowEvent::ClusterChanged(changes) => self.take(&mut state, changes, moment()),
                ShadowEvent::SyncDue => self.sync(&mut state),
                ShadowEvent::RulesChanged(change) => state.written(&change, moment()),
                ShadowEvent::LockReleased(at) => state.may_be_written(moment().back_to(at)),
                ShadowEvent::ReadingDue => {
                    state.reading_since = Some(Instant::now());
                    state.is_stale = false;
                    cpu_before = thread_cpu();
                    reading = Some(Box::pin(read_tables(&iptables)));
                }
                ShadowEvent::Read(live, result) => {
                    reading = None;
                    let cpu = thread_cpu().saturating_sub(cpu_before);
                    self.read(&mut state, cpu, live, result);
                    self.publish(&mut state);
                }
                ShadowEvent::Tick => self.tick(&mut state),
                ShadowEvent::Shutdown => return,
            }
        }
    }

    fn request_sync(&mut self) {
        let now = Instant::now().into_std();
        self.pacer.request(now);
        let family = self.reporter.family;
        self.reporter
            .health
            .update(|health| health.queued(family, now));
    }

    /// Applies changes to the tracker, and renders the Services that they concern.
    fn take(&mut self, state: &mut ShadowState, changes: Vec<Change>, arrived: Moment) {
        let node = self.tracker.node().cloned();
        let had_listed_all = self.tracker.has_listed_all();
        let mut names: BTreeSet<ServiceName> = self.dirty();
        let mut triggers: BTreeMap<ServiceName, Vec<SystemTime>> = BTreeMap::new();
        for change in changes {
            match &change {
                Change::Service(name, _) => drop(names.insert(name.clone())),
                Change::Slice(_, Some(slice), trigger) => {
                    names.insert(slice.service.clone());
                    let trigger = trigger.filter(|at| *at > self.started);
                    let of_service = triggers.entry(slice.service.clone()).or_default();
                    of_service.extend(trigger);
                }
                Change::Slice(_, None, _) | Change::Node(_) | Change::Listed(_) => {}
            }
            self.reporter.change(&change);
            self.tracker.apply(change);
        }
        names.extend(self.dirty());
        if let Some((_, options)) = &state.applied {
            let mut rules = ServiceRules::default();
            let rendered = self.tracker.rendered();
            let is_current = !state.is_stale && state.reading_since.is_none();
            for name in names {
                let service = rendered.get(&name);
                let known = state.rendered.insert(name.clone(), service.cloned());
                if known.is_some_and(|known| known.as_ref() == service) {
                    continue;
                }
                let version = version(&mut rules, &name, service, options);
                let new = NewVersion {
                    version,
                    triggers: triggers.remove(&name).unwrap_or_default(),
                    arrived,
                };
                let live = state.live.as_ref().filter(|_| is_current);
                let lags = state.comparison.change(&name, new, live);
                self.report_lags(lags.iter().map(|change| change.lag));
            }
            // The reading that runs may have the chains before or after the change.
            state.is_stale |= state.reading_since.is_some();
        }
        let is_node_new = self.tracker.node() != node.as_ref();
        if self.tracker.has_listed_all()
            && (self.tracker.has_pending() || is_node_new || !had_listed_all)
        {
            self.request_sync();
        }
    }

    fn dirty(&self) -> BTreeSet<ServiceName> {
        let tracker = &self.tracker;
        let names = tracker.dirty().chain(tracker.with_changed_losses());
        names.cloned().collect()
    }

    fn report_lags(&self, lags: impl Iterator<Item = Duration>) {
        let family = self.reporter.family;
        for lag in lags {
            self.metrics.lag(family, ShadowProxy::KubeProxy, lag);
        }
    }

    /// Renders the payload of a sync, and records it as written.
    fn sync(&mut self, state: &mut ShadowState) {
        let (started, used) = (Instant::now().into_std(), thread_cpu());
        let family = self.reporter.family;
        self.reporter.health.update(|health| health.began(family));
        let options = self.options();
        let is_first = !std::mem::replace(&mut state.has_synced, true);
        let known = state.applied.take();
        let known = known.filter(|(_, before)| RerenderReason::between(before, &options).is_none());
        let (applied, bytes) = if let Some((applied, _)) = known {
            self.partial(applied, &options)
        } else {
            state.comparison.replace_all(self.versions(&options));
            state.is_stale = true;
            let (applied, bytes) = self.full(&options);
            // The first sync would adopt the rules of kube-proxy and write nothing.
            (applied, if is_first { 0 } else { bytes })
        };
        state.applied = Some((applied, options));
        state.rendered.clear();
        self.tracker.mark_applied();
        if bytes > 0 {
            state.payloads.count += 1;
            state.payloads.bytes += bytes;
        }
        self.metrics.payload(family, bytes);
        let ended = moment();
        let ran = RunTimes {
            started,
            ended: ended.instant,
            cpu: thread_cpu().saturating_sub(used),
        };
        self.pacer.finished(&ran, SyncResult::Applied);
        for lag in state.comparison.synced(ended) {
            self.metrics.lag(family, ShadowProxy::Deltaproxy, lag);
        }
        self.reporter
            .health
            .update(|health| health.succeeded(family, ended.wall));
    }

    /// Renders a partial payload. Returns the record after it, and its size.
    fn partial(&self, mut applied: AppliedState, options: &Options) -> (AppliedState, u64) {
        let (dirty, extent) = (self.dirty(), PartialRestore::ChangedChains);
        let services = self.tracker.rendered();
        let payload = partial_payload(&mut applied, &services, dirty.iter(), options, extent);
        applied.written(payload.rendered);
        (applied, payload.stats.bytes)
    }

    /// Renders a full payload, as for a kernel without rules. Returns the record after it, and its
    /// size.
    fn full(&self, options: &Options) -> (AppliedState, u64) {
        let (services, live) = (self.tracker.rendered(), LiveChains::default());
        let mut payload = FullPayload::new(&services, options, &live);
        let (mut piece, mut bytes) = (Vec::new(), 0);
        while payload.write_next(&mut piece) {
            bytes += piece.len() as u64;
            piece.clear();
        }
        (payload.finish().0, bytes)
    }

    fn versions(&self, options: &Options) -> Vec<(ServiceName, ServiceVersion)> {
        let (services, mut rules) = (self.tracker.rendered(), ServiceRules::default());
        let all = services.all();
        let versions = all.map(|(name, service)| {
            let version = version(&mut rules, name, Some(service), options);
            (name.clone(), version)
        });
        versions.collect()
    }

    /// Returns the render options as kube-proxy has them: its dispatch chains are flat.
    fn options(&self) -> Options {
        let addresses = self.node_addresses();
        let mut options = self
            .render_settings
            .options(self.tracker.node(), &addresses);
        options.tree_thresholds = TreeThresholds::FLAT;
        options
    }

    fn node_addresses(&self) -> Vec<IpAddr> {
        if self.render_settings.needs_node_addresses() {
            Vec::from_iter(local_addresses().unwrap_or_default())
        } else {
            Vec::new()
        }
    }

    /// Takes the result of a reading, and compares it with all versions.
    fn read(
        &self,
        state: &mut ShadowState,
        cpu: Duration,
        live: LiveTables,
        result: Result<(), RunError>,
    ) {
        state.readings.count += 1;
        state.readings.cpu_seconds += cpu.as_secs_f64();
        let pause = cpu.saturating_mul(PAUSE_FACTOR).max(SHORTEST_PAUSE);
        state.read_not_before = Some(Instant::now() + pause);
        let began = state.reading_since.take().unwrap_or_else(Instant::now);
        state.last_read = Some(began);
        match result {
            Ok(()) => {
                state.has_logged_failure = false;
                self.compare(state, live, began.into_std());
            }
            Err(cause) => {
                state.readings.failed += 1;
                state.is_stale = true;
                self.report_failure(state, &cause);
            }
        }
    }

    fn compare(&self, state: &mut ShadowState, live: LiveTables, began: std::time::Instant) {
        if let Some((_, options)) = &state.applied {
            let mut options = options.clone();
            // Only kube-proxy makes counters, and only if the kernel supports them.
            options.counters = counters(&live);
            state.writes.is_incomplete |= self.misses_writes();
            let writes = &state.writes;
            let lags = state.comparison.observe(&live, &options, writes, began);
            self.report_lags(lags.iter().map(|change| change.lag));
        }
        let earlier = state.writes.take_before(began);
        let bytes: u64 = earlier.map(|write| live.bytes(&write.chains)).sum();
        if self.iptables.change_detection() == ChangeDetection::ByEvents {
            state.kube_proxy_bytes += bytes;
            self.metrics.kube_proxy(self.reporter.family, bytes);
        }
        state.live = Some(live);
    }

    /// Reports whether writes are not detected. On legacy without the lock, those that keep the
    /// size of a table are not.
    fn misses_writes(&self) -> bool {
        self.iptables.generation().is_none()
    }

    fn report_failure(&self, state: &mut ShadowState, cause: &RunError) {
        if !std::mem::replace(&mut state.has_logged_failure, true) {
            let cause = on_one_line(&cause.to_string());
            warn!(
                family = %self.reporter.family, %cause,
                "cannot read the rules in the kernel; retrying, until then nothing is compared"
            );
        }
    }

    fn tick(&mut self, state: &mut ShadowState) {
        if self.misses_writes() {
            state.is_stale |= state
                .last_read
                .is_none_or(|last| last.elapsed() >= UNDETECTED_INTERVAL);
        }
        if let Some((_, options)) = &state.applied
            && *options != self.options()
        {
            self.request_sync();
        }
        self.publish(state);
    }

    /// Logs new late differences, and updates metrics and the page.
    fn publish(&self, state: &mut ShadowState) {
        let family = self.reporter.family;
        let now = Instant::now().into_std();
        let late = match (&state.live, &state.applied) {
            (Some(live), Some(_)) => state.comparison.late(live, now),
            _ => LateDifferences::default(),
        };
        log_new(family, &late.new);
        for kind in ShadowKind::ALL {
            let of_kind = late.all.iter().filter(|found| found.kind == kind);
            self.metrics
                .differences(family, kind.as_str(), of_kind.count());
        }
        self.metrics.waiting(family, late.waiting_services);
        let affecting = late.all.iter().filter(|found| found.kind.affects_packets());
        let affecting = affecting.count() as u64;
        let counts = state.comparison.counts();
        let has_events = self.iptables.change_detection() == ChangeDetection::ByEvents;
        let difference_count = late.all.len() as u64;
        let mut differences = late.all;
        differences.truncate(MOST_DIFFERENCES);
        self.log.set(ShadowFamily {
            family: family.to_string(),
            backend: self.render_settings.fixed.backend.to_string(),
            other_backend: String::new(),
            services: counts.with_rules as u64,
            waiting_services: counts.waiting as u64,
            differing_services: counts.differing as u64,
            kube_proxy_lag: state.comparison.kube_proxy_lag.clone(),
            kube_proxy_triggered_lag: state.comparison.kube_proxy_triggered_lag.clone(),
            unmeasured_changes: state.comparison.unmeasured,
            own_lag: state.comparison.own_lag.clone(),
            own_payloads: state.payloads,
            kube_proxy_bytes_at_least: has_events.then_some(state.kube_proxy_bytes),
            readings: state.readings,
            difference_count,
            differences_affecting_packets: affecting,
            differences,
        });
    }
}

impl ShadowState {
    /// Returns the time of the next reading, if one is needed.
    fn next_reading(&self) -> Option<Instant> {
        // Before the first sync there is nothing to compare with.
        let is_due = self.is_stale && self.applied.is_some() && self.reading_since.is_none();
        is_due.then(|| self.read_not_before.unwrap_or_else(Instant::now))
    }

    /// Notes a change of the tables, if it is one of kube-proxy chains.
    fn written(&mut self, change: &ForeignChange, at: Moment) {
        let mut chains = ChainSet::of_tables(
            change
                .chains
                .whole_tables()
                .filter(|table| COMPARED.contains(table)),
        );
        for (table, chain) in change.chains.named() {
            let is_built_in = table.built_in_chains().contains(&chain);
            if COMPARED.contains(&table) && (chain.starts_with("KUBE-") || is_built_in) {
                chains.add(table, chain);
            }
        }
        if !chains.is_empty() {
            self.add_write(TableWrite { at, chains });
        }
    }

    fn may_be_written(&mut self, at: Moment) {
        let chains = ChainSet::of_tables(COMPARED);
        self.add_write(TableWrite { at, chains });
    }

    fn add_write(&mut self, write: TableWrite) {
        self.is_stale = true;
        if self.writes.all.len() < MOST_WRITES {
            self.writes.all.push(write);
        } else {
            self.writes.is_incomplete = true;
        }
    }
}

async fn read_tables(iptables: &impl Iptables) -> (LiveTables, Result<(), RunError>) {
    let mut live = LiveTables::default();
    for table in COMPARED {
        let mut each = |line: &str| live.read_line(table, line);
        if let Err(cause) = iptables.save(table, &mut each).await {
            return (live, Err(cause));
        }
    }
    // Writes that it has are reported a moment later.
    sleep(REPORT_DELAY).await;
    (live, Ok(()))
}

/// Waits for the end of a reading; forever for `None`.
async fn finished<F: Future + Unpin>(reading: &mut Option<F>) -> F::Output {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}

/// Renders a Service as kube-proxy would.
fn version(
    rules: &mut ServiceRules,
    name: &ServiceName,
    service: Option<&ServiceState>,
    options: &Options,
) -> ServiceVersion {
    match service {
        Some(service) => render_service(rules, name, service, options, Comments::NotOnEndpoints),
        None => rules.clear(),
    }
    ServiceVersion::rendered(rules)
}

/// Returns the counters that rules of fixed chains in the kernel name.
fn counters(live: &LiveTables) -> BTreeSet<Counter> {
    let is_named = |counter: &Counter| {
        let mut tables = COMPARED.into_iter();
        tables.any(|table| live.listing(table).contains(counter.name()))
    };
    Counter::ALL.into_iter().filter(is_named).collect()
}

fn log_new(family: IpFamily, new: &[ShadowDifference]) {
    if new.is_empty() {
        return;
    }
    let shown = new.iter().take(MOST_LOGGED).map(|found| {
        let service = match found.service.as_str() {
            "" => "no Service",
            name => name,
        };
        format!("{service}: {} {}", found.kind.as_str(), found.chain)
    });
    let first = shown.collect::<Vec<_>>().join(", ");
    let waiting = new.iter().filter(|found| found.is_waiting).count();
    if waiting == new.len() {
        warn!(
            %family, differences = new.len(), %first,
            "changes of the cluster have waited for kube-proxy for more than a minute. If this \
             repeats, check that kube-proxy runs and its log for failed syncs"
        );
    } else {
        warn!(
            %family, differences = new.len(), %first,
            "rules in the kernel have differed from the desired ones for more than a minute. \
             Compare the configuration of kube-proxy with that of this daemon, and check whether \
             another program changes rules; `deltaproxy shadow-report` lists all"
        );
    }
}

/// Waits for a moment; forever for `None`.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn moment() -> Moment {
    Moment {
        instant: Instant::now().into_std(),
        wall: clock::wall(),
    }
}
