//! Names, HELP, labels and buckets of the metrics of syncs.
//!
//! Kept separate from [`SyncMetrics`](super::sync::SyncMetrics), which decides when they change.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/metrics/metrics.go` (v1.36)

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use prometheus::core::{AtomicF64, GenericCounterVec};
use prometheus::{
    GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    Result, exponential_buckets,
};

use super::factory::MetricFactory;
use crate::net::{IpFamily, PerFamily};

const FAMILY: &[&str] = &["ip_family"];

/// Durations and times of syncs.
#[derive(Debug, Clone)]
pub(super) struct TimingMetrics {
    pub(super) all: HistogramVec,
    pub(super) full: HistogramVec,
    pub(super) partial: HistogramVec,
    pub(super) programming: HistogramVec,
    pub(super) conntrack: HistogramVec,
    pub(super) last: GaugeVec,
    pub(super) last_queued: GaugeVec,
}

impl TimingMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = MetricFactory::upstream(registry);
        let buckets = exponential_buckets(0.001, 2.0, 15)?;
        let durations = |name, help| up.histograms(name, help, FAMILY, buckets.clone());
        Ok(Self {
            all: durations(
                "sync_proxy_rules_duration_seconds",
                "Duration of syncs in seconds, including failed ones",
            )?,
            full: durations(
                "sync_full_proxy_rules_duration_seconds",
                "Duration of full syncs in seconds, which write all rules",
            )?,
            partial: durations(
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
            last: up.timestamps(
                "sync_proxy_rules_last_timestamp_seconds",
                "Unix time of the last successful sync",
            )?,
            last_queued: up.timestamps(
                "sync_proxy_rules_last_queued_timestamp_seconds",
                "Unix time at which a sync was last queued",
            )?,
        })
    }
}

/// Changes of objects. Upstream labels none of these metrics.
#[derive(Debug, Clone)]
pub(super) struct ChangeMetrics {
    pub(super) endpoints_pending: FamilySum,
    pub(super) endpoints: IntCounter,
    pub(super) services_pending: FamilySum,
    pub(super) services: IntCounter,
}

impl ChangeMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = MetricFactory::upstream(registry);
        Ok(Self {
            endpoints_pending: FamilySum::new(up.gauge(
                "sync_proxy_rules_endpoint_changes_pending",
                "Number of EndpointSlices whose changes are not in the kernel yet",
            )?),
            endpoints: up.counter(
                "sync_proxy_rules_endpoint_changes_total",
                "Number of EndpointSlice changes received",
            )?,
            services_pending: FamilySum::new(up.gauge(
                "sync_proxy_rules_service_changes_pending",
                "Number of Services whose changes are not in the kernel yet",
            )?),
            services: up.counter(
                "sync_proxy_rules_service_changes_total",
                "Number of Service changes received",
            )?,
        })
    }
}

/// Numbers of rules and of service ports that lack local endpoints.
#[derive(Debug, Clone)]
pub(super) struct RuleMetrics {
    pub(super) total: IntGaugeVec,
    pub(super) last: IntGaugeVec,
    pub(super) no_local_endpoints: IntGaugeVec,
}

impl RuleMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = MetricFactory::upstream(registry);
        Ok(Self {
            total: up.gauges(
                "sync_proxy_rules_iptables_total",
                "Number of iptables rules owned by the proxy",
                &["table", "ip_family"],
            )?,
            last: up.gauges(
                "sync_proxy_rules_iptables_last",
                "Number of iptables rules written by the last sync",
                &["table", "ip_family"],
            )?,
            no_local_endpoints: up.gauges(
                "sync_proxy_rules_no_local_endpoints_total",
                "Number of service ports with traffic policy Local and endpoints on other nodes only",
                &["traffic_policy", "ip_family"],
            )?,
        })
    }
}

/// Restores, full syncs and their findings.
#[derive(Debug, Clone)]
pub(super) struct RestoreMetrics {
    pub(super) failures: IntCounterVec,
    pub(super) partial_failures: IntCounterVec,
    pub(super) conntrack_deleted: IntCounterVec,
    pub(super) full_syncs: IntCounterVec,
    pub(super) unreadable: IntGaugeVec,
    pub(super) conflicts: IntGaugeVec,
    pub(super) over_limit: IntGaugeVec,
    pub(super) repairs: IntCounterVec,
    pub(super) payload_bytes: HistogramVec,
    pub(super) lock_wait: GenericCounterVec<AtomicF64>,
}

impl RestoreMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let (up, own) = (
            MetricFactory::upstream(registry),
            MetricFactory::own(registry),
        );
        let lock_wait = Opts::new(
            "deltaproxy_restore_lock_wait_seconds_total",
            "Time in seconds that restores were observed waiting for the xtables lock",
        );
        Ok(Self {
            failures: up.counters(
                "sync_proxy_rules_iptables_restore_failures_total",
                "Number of failed restores",
                FAMILY,
            )?,
            partial_failures: up.counters(
                "sync_proxy_rules_iptables_partial_restore_failures_total",
                "Number of failed partial restores; a full one follows unless the lock was held",
                FAMILY,
            )?,
            conntrack_deleted: up.counters(
                "conntrack_reconciler_deleted_entries_total",
                "Number of conntrack entries deleted because their endpoint is gone",
                FAMILY,
            )?,
            full_syncs: own.counters(
                "full_syncs_total",
                "Number of full syncs by reason; flushed: another program removed or changed rules",
                &["ip_family", "reason"],
            )?,
            unreadable: own.gauges(
                "unreadable_tables",
                "1 if the last check of the proxy's rules could not read the table",
                &["ip_family", "table"],
            )?,
            conflicts: own.gauges(
                "frontend_conflicts",
                "Number of addresses and ports that several Services claim; one of them gets each",
                FAMILY,
            )?,
            over_limit: own.gauges(
                "services_over_limit",
                "Number of Services that lack rules because of a limit of the Service or its namespace",
                &["ip_family", "limit"],
            )?,
            repairs: own.counters(
                "chain_repairs_total",
                "Number of fixed chains rewritten because they held third-party rules",
                &["ip_family", "table"],
            )?,
            // 256 bytes, for one small chain, to 256 MiB, beyond any full payload.
            payload_bytes: own.histograms(
                "restore_payload_bytes",
                "Size of iptables-restore payloads in bytes",
                &["scope"],
                exponential_buckets(256.0, 4.0, 11)?,
            )?,
            lock_wait: own.add(GenericCounterVec::new(lock_wait, FAMILY)?)?,
        })
    }
}

/// Services that make restores fail.
#[derive(Debug, Clone)]
pub(super) struct QuarantineMetrics {
    pub(super) now: IntGaugeVec,
    pub(super) services: IntCounterVec,
    pub(super) restores: IntCounterVec,
}

impl QuarantineMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let own = MetricFactory::own(registry);
        Ok(Self {
            now: own.gauges(
                "quarantined_services",
                "Number of Services whose changes are not applied because they make restores fail",
                FAMILY,
            )?,
            services: own.counters(
                "quarantines_total",
                "Number of Services put into quarantine, by cause of their failed restore",
                &["ip_family", "cause"],
            )?,
            restores: own.counters(
                "isolation_restores_total",
                "Number of restores made to find Services that make restores fail, and to retry them",
                &["ip_family", "result"],
            )?,
        })
    }
}

/// Rules that other programs change.
#[derive(Debug, Clone)]
pub(super) struct DriftMetrics {
    pub(super) checks: IntCounterVec,
    pub(super) failed: IntCounterVec,
    pub(super) chains: IntCounterVec,
    pub(super) repaired: HistogramVec,
    pub(super) verified: GaugeVec,
    pub(super) is_clean: IntGaugeVec,
    pub(super) contested: IntGaugeVec,
}

impl DriftMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let own = MetricFactory::own(registry);
        Ok(Self {
            checks: own.counters(
                "rule_checks_total",
                "Number of checks of the proxy's rules in the kernel, by trigger",
                &["ip_family", "trigger"],
            )?,
            failed: own.counters(
                "rule_checks_failed_total",
                "Number of comparisons of all rules that could not read a table",
                FAMILY,
            )?,
            chains: own.counters(
                "drifted_chains_total",
                "Number of chains found to hold other rules than were applied",
                &["ip_family", "table", "kind"],
            )?,
            // 5 ms, for a repair after an event, to 82 s, for one that backs off.
            repaired: own.histograms(
                "drift_repair_duration_seconds",
                "Time in seconds from finding changed rules to having repaired them",
                FAMILY,
                exponential_buckets(0.005, 2.0, 15)?,
            )?,
            verified: own.timestamps(
                "rules_last_verified_timestamp_seconds",
                "Unix time of the last comparison of all rules in the kernel with the applied ones",
            )?,
            is_clean: own.gauges(
                "rules_verified",
                "1 if the last check found the applied rules in the kernel, or they are repaired since",
                FAMILY,
            )?,
            contested: own.gauges(
                "contested_chains",
                "Number of chains that another program changes repeatedly, so that repairs wait",
                FAMILY,
            )?,
        })
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
pub(super) struct FamilySum {
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
    pub(super) fn set(&self, family: IpFamily, share: i64) {
        let before = self.shares.get(family).swap(share, Ordering::Relaxed);
        self.sum.add(share - before);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn programming_buckets_are_counted() {
        assert_eq!(super::programming_buckets().len(), 1 + 2 + 59 + 12 + 7);
    }
}
