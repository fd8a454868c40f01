//! Metrics of syncs: their duration, the changes before them, and the rules after them.
//!
//! Callers name no metric. No clock is read here: times are arguments.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/metrics/metrics.go` (v1.37)

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use prometheus::{
    GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry, Result,
    exponential_buckets,
};

use super::factory::{FAMILY, MetricFactory, OWN, UPSTREAM, gauge, observe, set, set_timestamp};
use super::restores::{DriftMetrics, QuarantineMetrics, RestoreMetrics, SyncKind};
use crate::net::{IpFamily, PerFamily};

/// Metrics of all syncs. Clones share their values.
#[derive(Debug, Clone)]
pub struct SyncMetrics {
    durations: HistogramVec,
    full_durations: HistogramVec,
    partial_durations: HistogramVec,
    programming: HistogramVec,
    conntrack: HistogramVec,
    conntrack_deleted: IntCounterVec,
    last_synced: GaugeVec,
    last_queued: GaugeVec,
    endpoints_pending: FamilySum,
    endpoint_changes: IntCounter,
    services_pending: FamilySum,
    service_changes: IntCounter,
    rules_total: IntGaugeVec,
    rules_last: IntGaugeVec,
    no_local_endpoints: IntGaugeVec,
    tree_chains: IntGaugeVec,
    pub restores: RestoreMetrics,
    pub quarantine: QuarantineMetrics,
    pub drift: DriftMetrics,
}

impl SyncMetrics {
    #[expect(clippy::too_many_lines, reason = "an entry for each metric")]
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = MetricFactory::new(registry, UPSTREAM);
        let buckets = exponential_buckets(0.001, 2.0, 15)?;
        let durations = |name, help| up.histograms(name, help, FAMILY, buckets.clone());
        Ok(Self {
            durations: durations(
                "sync_proxy_rules_duration_seconds",
                "Duration of syncs in seconds, including failed ones",
            )?,
            full_durations: durations(
                "sync_full_proxy_rules_duration_seconds",
                "Duration of full syncs in seconds, which write all rules",
            )?,
            partial_durations: durations(
                "sync_partial_proxy_rules_duration_seconds",
                "Duration of partial syncs in seconds, which write changed rules",
            )?,
            programming: up.histograms(
                "network_programming_duration_seconds",
                "Time in seconds from an endpoint change in the cluster to its rules in the kernel",
                FAMILY,
                programming_buckets(),
            )?,
            conntrack: durations(
                "conntrack_reconciler_sync_duration_seconds",
                "Duration of conntrack cleanups in seconds",
            )?,
            conntrack_deleted: up.counters(
                "conntrack_reconciler_deleted_entries_total",
                "Number of conntrack entries deleted because their endpoint is gone",
                FAMILY,
            )?,
            last_synced: up.timestamps(
                "sync_proxy_rules_last_timestamp_seconds",
                "Unix time of the last successful sync",
            )?,
            last_queued: up.timestamps(
                "sync_proxy_rules_last_queued_timestamp_seconds",
                "Unix time at which a sync was last queued",
            )?,
            endpoints_pending: FamilySum::new(up.gauge(
                "sync_proxy_rules_endpoint_changes_pending",
                "Number of EndpointSlices whose changes are not in the kernel yet",
            )?),
            endpoint_changes: up.counter(
                "sync_proxy_rules_endpoint_changes_total",
                "Number of EndpointSlice changes received",
            )?,
            services_pending: FamilySum::new(up.gauge(
                "sync_proxy_rules_service_changes_pending",
                "Number of Services whose changes are not in the kernel yet",
            )?),
            service_changes: up.counter(
                "sync_proxy_rules_service_changes_total",
                "Number of Service changes received",
            )?,
            rules_total: up.gauges(
                "sync_proxy_rules_iptables_total",
                "Number of iptables rules owned by the proxy",
                &["table", "ip_family"],
            )?,
            rules_last: up.gauges(
                "sync_proxy_rules_iptables_last",
                "Number of iptables rules written by the last sync",
                &["table", "ip_family"],
            )?,
            no_local_endpoints: up.gauges(
                "sync_proxy_rules_no_local_endpoints_total",
                "Number of service ports with traffic policy Local and endpoints on other nodes only",
                &["traffic_policy", "ip_family"],
            )?,
            tree_chains: MetricFactory::new(registry, OWN).gauges(
                "tree_chains",
                "Number of chains of trees that send packets to Services; 0 if all rules are flat",
                FAMILY,
            )?,
            restores: RestoreMetrics::register(registry)?,
            quarantine: QuarantineMetrics::register(registry)?,
            drift: DriftMetrics::register(registry)?,
        })
    }

    pub fn synced(&self, family: IpFamily, kind: SyncKind, took: Duration) {
        let of_kind = match kind {
            SyncKind::Full => &self.full_durations,
            SyncKind::Partial => &self.partial_durations,
        };
        for histogram in [&self.durations, of_kind] {
            observe(histogram, family, took);
        }
    }

    pub fn succeeded(&self, family: IpFamily, at: SystemTime) {
        set_timestamp(&self.last_synced, family, at);
    }

    pub fn queued(&self, family: IpFamily, at: SystemTime) {
        set_timestamp(&self.last_queued, family, at);
    }

    pub fn tree_chains(&self, family: IpFamily, chains: usize) {
        set(&self.tree_chains, &[family.as_str()], chains);
    }

    /// Records the time from the trigger of an endpoint change to its rules in the kernel.
    pub fn programmed(&self, family: IpFamily, latency: Duration) {
        observe(&self.programming, family, latency);
    }

    pub fn conntrack_cleaned(&self, family: IpFamily, took: Duration, deleted: u64) {
        observe(&self.conntrack, family, took);
        self.conntrack_deleted
            .with_label_values(&[family.as_str()])
            .inc_by(deleted);
    }

    /// Creates the counter of deleted conntrack entries of a family that is served.
    pub fn serving(&self, family: IpFamily) {
        self.conntrack_deleted.with_label_values(&[family.as_str()]);
    }

    pub fn endpoint_change(&self) {
        self.endpoint_changes.inc();
    }

    pub fn service_change(&self) {
        self.service_changes.inc();
    }

    /// Sets the numbers of Services and `EndpointSlices` of the family whose current state is not
    /// in the kernel yet.
    ///
    /// Differs from upstream: there either family overwrites the number of Services of the other
    /// one, and slices count once for each change, until any sync of any family begins.
    pub fn pending(&self, family: IpFamily, services: usize, slices: usize) {
        self.services_pending.set(family, gauge(services));
        self.endpoints_pending.set(family, gauge(slices));
    }

    /// Sets the number of rules that the proxy owns in a table, and that the last payload wrote.
    /// `table` is `filter` or `nat`.
    pub fn rules(&self, family: IpFamily, table: &str, total: usize, last: usize) {
        let labels = [table, family.as_str()];
        set(&self.rules_total, &labels, total);
        set(&self.rules_last, &labels, last);
    }

    /// Sets the number of service ports that have endpoints, but none that the local policy
    /// allows. `policy` is `internal` or `external`.
    pub fn no_local_endpoints(&self, family: IpFamily, policy: &str, ports: usize) {
        set(&self.no_local_endpoints, &[policy, family.as_str()], ports);
    }
}

/// Returns upstream's buckets, in seconds. The first one, 0, is an accident of its code that
/// dashboards know.
fn programming_buckets() -> Vec<f64> {
    let whole = (1..60)
        .chain((60..120).step_by(5))
        .chain((120..=300).step_by(30));
    let start = [0.0, 0.25, 0.5].into_iter();
    start.chain(whole.map(f64::from)).collect()
}

/// Gauge without a family label: the sum of both families. Each family sets its share
/// independently. Clones share the gauge and the shares.
#[derive(Debug, Clone)]
struct FamilySum {
    sum: IntGauge,
    shares: Arc<PerFamily<AtomicI64>>,
}

impl FamilySum {
    fn new(sum: IntGauge) -> Self {
        let shares = PerFamily::from_fn(|_| AtomicI64::new(0));
        Self {
            sum,
            shares: Arc::new(shares),
        }
    }

    /// Sets the share of a family. If both families set theirs at once, the sum is right after
    /// both calls.
    fn set(&self, family: IpFamily, share: i64) {
        let before = self.shares.get(family).swap(share, Ordering::Relaxed);
        self.sum.add(share - before);
    }
}

#[cfg(test)]
#[path = "tests/sync.rs"]
mod tests;
