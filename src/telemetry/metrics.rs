//! What is counted and timed about syncs.
//!
//! Apart from the syncs, so that these say what happened and never what a metric is called. No
//! clock is read here: times are arguments.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/metrics/metrics.go` (v1.36)

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::core::{AtomicF64, GenericCounterVec};
use prometheus::{
    GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    Result, exponential_buckets,
};

use crate::net::IpFamily;

use super::register::Names;

const FAMILY: &[&str] = &["ip_family"];

/// How much a sync set out to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// Everything.
    Full,
    /// What had changed.
    Partial,
}

impl Attempt {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
        }
    }
}

/// Which traffic policy left a service port without endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// `internalTrafficPolicy: Local`.
    Internal,
    /// `externalTrafficPolicy: Local`.
    External,
}

/// The metrics of all syncs. Clones share their values.
#[derive(Debug, Clone)]
pub struct SyncMetrics {
    duration: HistogramVec,
    full_duration: HistogramVec,
    partial_duration: HistogramVec,
    programming: HistogramVec,
    last: GaugeVec,
    last_queued: GaugeVec,
    endpoint_changes_pending: IntGauge,
    endpoint_changes: IntCounter,
    service_changes_pending: IntGauge,
    service_changes: IntCounter,
    rules_total: IntGaugeVec,
    rules_last: IntGaugeVec,
    restore_failures: IntCounterVec,
    partial_restore_failures: IntCounterVec,
    no_local_endpoints: IntGaugeVec,
    conntrack_duration: HistogramVec,
    conntrack_deleted: IntCounterVec,
    payload_bytes: HistogramVec,
    lock_wait: GenericCounterVec<AtomicF64>,
}

impl SyncMetrics {
    #[rustfmt::skip]
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = Names::upstream(registry);
        let own = Names::own(registry);
        let pace = exponential_buckets(0.001, 2.0, 15)?;
        let timed = |name, help| up.histograms(name, help, "ip_family", pace.clone());
        let waits = Opts::new(
            "deltaproxy_restore_lock_wait_seconds_total",
            "Time restores were seen waiting for the xtables lock",
        );
        Ok(Self {
            duration: timed("sync_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds")?,
            full_duration: timed("sync_full_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds for full resyncs")?,
            partial_duration: timed("sync_partial_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds for partial resyncs")?,
            programming: up.histograms("network_programming_duration_seconds", "In Cluster Network Programming Latency in seconds", "ip_family", programming_buckets())?,
            last: up.stamps("sync_proxy_rules_last_timestamp_seconds", "The last time proxy rules were successfully synced")?,
            last_queued: up.stamps("sync_proxy_rules_last_queued_timestamp_seconds", "The last time a sync of proxy rules was queued")?,
            endpoint_changes_pending: up.gauge("sync_proxy_rules_endpoint_changes_pending", "Pending proxy rules Endpoint changes")?,
            endpoint_changes: up.counter("sync_proxy_rules_endpoint_changes_total", "Cumulative proxy rules Endpoint changes")?,
            service_changes_pending: up.gauge("sync_proxy_rules_service_changes_pending", "Pending proxy rules Service changes")?,
            service_changes: up.counter("sync_proxy_rules_service_changes_total", "Cumulative proxy rules Service changes")?,
            rules_total: up.gauges("sync_proxy_rules_iptables_total", "Total number of iptables rules owned by kube-proxy", &["table", "ip_family"])?,
            rules_last: up.gauges("sync_proxy_rules_iptables_last", "Number of iptables rules written by kube-proxy in last sync", &["table", "ip_family"])?,
            restore_failures: up.counters("sync_proxy_rules_iptables_restore_failures_total", "Cumulative proxy iptables restore failures", FAMILY)?,
            partial_restore_failures: up.counters("sync_proxy_rules_iptables_partial_restore_failures_total", "Cumulative proxy iptables partial restore failures", FAMILY)?,
            no_local_endpoints: up.gauges("sync_proxy_rules_no_local_endpoints_total", "Number of services with a Local traffic policy and no endpoints", &["traffic_policy", "ip_family"])?,
            conntrack_duration: timed("conntrack_reconciler_sync_duration_seconds", "ReconcileConntrackFlowsLatency latency in seconds")?,
            conntrack_deleted: up.counters("conntrack_reconciler_deleted_entries_total", "Cumulative conntrack flows deleted by conntrack reconciler", FAMILY)?,
            payload_bytes: own.histograms("restore_payload_bytes", "Size of the text given to iptables-restore", "scope", exponential_buckets(256.0, 4.0, 11)?)?,
            lock_wait: own.add(GenericCounterVec::new(waits, FAMILY)?)?,
        })
    }

    /// A sync ended, well or not.
    pub fn synced(&self, family: IpFamily, attempt: Attempt, took: Duration) {
        let by_attempt = match attempt {
            Attempt::Full => &self.full_duration,
            Attempt::Partial => &self.partial_duration,
        };
        for histogram in [&self.duration, by_attempt] {
            observe(histogram, family, took);
        }
    }

    /// The kernel has everything that was asked for.
    pub fn succeeded(&self, family: IpFamily, at: SystemTime) {
        stamp(&self.last, family, at);
    }

    /// A sync was asked for.
    pub fn queued(&self, family: IpFamily, at: SystemTime) {
        stamp(&self.last_queued, family, at);
    }

    /// `iptables-restore` failed.
    pub fn restore_failed(&self, family: IpFamily, attempt: Attempt) {
        let label = [family.as_str()];
        self.restore_failures.with_label_values(&label).inc();
        if attempt == Attempt::Partial {
            self.partial_restore_failures
                .with_label_values(&label)
                .inc();
        }
    }

    /// `iptables-restore` succeeded with so much text, after being seen waiting for the lock.
    pub fn restored(&self, family: IpFamily, attempt: Attempt, bytes: u64, lock_wait: Duration) {
        #[expect(clippy::cast_precision_loss, reason = "exact up to petabytes")]
        let bytes = bytes as f64;
        self.payload_bytes
            .with_label_values(&[attempt.as_str()])
            .observe(bytes);
        self.lock_wait
            .with_label_values(&[family.as_str()])
            .inc_by(lock_wait.as_secs_f64());
    }

    /// How many rules of ours a table holds, and how many the last payload wrote. `table` is
    /// `filter` or `nat`.
    pub fn rules(&self, family: IpFamily, table: &str, total: usize, last: usize) {
        let labels = [table, family.as_str()];
        self.rules_total
            .with_label_values(&labels)
            .set(gauge(total));
        self.rules_last.with_label_values(&labels).set(gauge(last));
    }

    /// A change of endpoints reached the kernel so long after it was triggered.
    pub fn programmed(&self, family: IpFamily, latency: Duration) {
        observe(&self.programming, family, latency);
    }

    /// Slice events were seen; `pending` changes have not reached the kernel yet.
    pub fn endpoint_changes(&self, seen: u64, pending: usize) {
        self.endpoint_changes.inc_by(seen);
        self.endpoint_changes_pending.set(gauge(pending));
    }

    /// Service events were seen; `pending` changes have not reached the kernel yet.
    pub fn service_changes(&self, seen: u64, pending: usize) {
        self.service_changes.inc_by(seen);
        self.service_changes_pending.set(gauge(pending));
    }

    /// How many service ports have endpoints, but none that their local policy allows.
    pub fn no_local_endpoints(&self, family: IpFamily, policy: Policy, ports: usize) {
        let policy = match policy {
            Policy::Internal => "internal",
            Policy::External => "external",
        };
        self.no_local_endpoints
            .with_label_values(&[policy, family.as_str()])
            .set(gauge(ports));
    }

    /// Conntrack entries were looked through, and so many deleted.
    pub fn conntrack_cleaned(&self, family: IpFamily, took: Duration, deleted: u64) {
        observe(&self.conntrack_duration, family, took);
        self.conntrack_deleted
            .with_label_values(&[family.as_str()])
            .inc_by(deleted);
    }
}

/// Upstream's buckets. The first one, 0, is an accident of its code that dashboards know.
fn programming_buckets() -> Vec<f64> {
    let whole = (1..60)
        .chain((60..120).step_by(5))
        .chain((120..=300).step_by(30));
    let start = [0.0, 0.25, 0.5].into_iter();
    start.chain(whole.map(f64::from)).collect()
}

fn observe(histogram: &HistogramVec, family: IpFamily, value: Duration) {
    histogram
        .with_label_values(&[family.as_str()])
        .observe(value.as_secs_f64());
}

fn stamp(gauges: &GaugeVec, family: IpFamily, at: SystemTime) {
    // Before 1970 is as good as never.
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    gauges
        .with_label_values(&[family.as_str()])
        .set(since.as_secs_f64());
}

fn gauge(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "tests/metrics.rs"]
mod tests;
