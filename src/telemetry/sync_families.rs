//! Names, HELP, labels and buckets of the sync metrics.
//!
//! Apart from [`metrics`](super::metrics), which is about when they change.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/metrics/metrics.go` (v1.36)

use prometheus::core::{AtomicF64, GenericCounterVec};
use prometheus::{
    GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry, Result,
    exponential_buckets,
};

use super::register::Names;
use super::summed::Summed;

const FAMILY: &[&str] = &["ip_family"];

/// How long things take and when they happened.
#[derive(Debug, Clone)]
pub(super) struct Timings {
    pub(super) all: HistogramVec,
    pub(super) full: HistogramVec,
    pub(super) partial: HistogramVec,
    pub(super) programming: HistogramVec,
    pub(super) conntrack: HistogramVec,
    pub(super) last: GaugeVec,
    pub(super) last_queued: GaugeVec,
}

impl Timings {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = Names::upstream(registry);
        let pace = exponential_buckets(0.001, 2.0, 15)?;
        let timed = |name, help| up.histograms(name, help, FAMILY, pace.clone());
        Ok(Self {
            all: timed(
                "sync_proxy_rules_duration_seconds",
                "Time that a sync took, whatever its scope and outcome",
            )?,
            full: timed(
                "sync_full_proxy_rules_duration_seconds",
                "Time that a sync of every rule took",
            )?,
            partial: timed(
                "sync_partial_proxy_rules_duration_seconds",
                "Time that a sync of changed rules took",
            )?,
            programming: up.histograms(
                "network_programming_duration_seconds",
                "Time from a change of endpoints in the cluster to rules in the kernel",
                FAMILY,
                programming_buckets(),
            )?,
            conntrack: timed(
                "conntrack_reconciler_sync_duration_seconds",
                "Time that a clean-up of conntrack entries took",
            )?,
            last: up.stamps(
                "sync_proxy_rules_last_timestamp_seconds",
                "When a sync last succeeded",
            )?,
            last_queued: up.stamps(
                "sync_proxy_rules_last_queued_timestamp_seconds",
                "When a sync was last asked for",
            )?,
        })
    }
}

/// What came from the API. Upstream labels none of it.
#[derive(Debug, Clone)]
pub(super) struct Changes {
    pub(super) endpoints_pending: Summed,
    pub(super) endpoints: IntCounter,
    pub(super) services_pending: Summed,
    pub(super) services: IntCounter,
}

impl Changes {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = Names::upstream(registry);
        Ok(Self {
            endpoints_pending: Summed::new(up.gauge(
                "sync_proxy_rules_endpoint_changes_pending",
                "EndpointSlices whose changes are not in the kernel yet",
            )?),
            endpoints: up.counter(
                "sync_proxy_rules_endpoint_changes_total",
                "Changes of EndpointSlices seen",
            )?,
            services_pending: Summed::new(up.gauge(
                "sync_proxy_rules_service_changes_pending",
                "Services whose changes are not in the kernel yet",
            )?),
            services: up.counter(
                "sync_proxy_rules_service_changes_total",
                "Changes of Services seen",
            )?,
        })
    }
}

/// What the rules are like.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) total: IntGaugeVec,
    pub(super) last: IntGaugeVec,
    pub(super) no_local_endpoints: IntGaugeVec,
}

impl Rules {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = Names::upstream(registry);
        Ok(Self {
            total: up.gauges(
                "sync_proxy_rules_iptables_total",
                "Rules of ours in the kernel",
                &["table", "ip_family"],
            )?,
            last: up.gauges(
                "sync_proxy_rules_iptables_last",
                "Rules that the last sync wrote",
                &["table", "ip_family"],
            )?,
            no_local_endpoints: up.gauges(
                "sync_proxy_rules_no_local_endpoints_total",
                "Service ports with policy Local whose endpoints are all on other nodes",
                &["traffic_policy", "ip_family"],
            )?,
        })
    }
}

/// What was done to the kernel.
#[derive(Debug, Clone)]
pub(super) struct Restores {
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

impl Restores {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let (up, own) = (Names::upstream(registry), Names::own(registry));
        let waits = Opts::new(
            "deltaproxy_restore_lock_wait_seconds_total",
            "Time restores were seen waiting for the xtables lock",
        );
        Ok(Self {
            failures: up.counters(
                "sync_proxy_rules_iptables_restore_failures_total",
                "Restores that failed",
                FAMILY,
            )?,
            partial_failures: up.counters(
                "sync_proxy_rules_iptables_partial_restore_failures_total",
                "Partial restores that failed; a full one follows unless the lock was held",
                FAMILY,
            )?,
            conntrack_deleted: up.counters(
                "conntrack_reconciler_deleted_entries_total",
                "Conntrack entries deleted because their endpoint is gone",
                FAMILY,
            )?,
            full_syncs: own.counters(
                "full_syncs_total",
                "Full syncs, by what made them full; flushed: somebody changed our rules",
                &["ip_family", "reason"],
            )?,
            unreadable: own.gauges(
                "unreadable_tables",
                "Whether the last check of our rules could not read the table",
                &["ip_family", "table"],
            )?,
            conflicts: own.gauges(
                "frontend_conflicts",
                "Addresses and ports that several Services ask for; one of them has each",
                FAMILY,
            )?,
            over_limit: own.gauges(
                "services_over_limit",
                "Services that lack rules because of a limit of the Service or its namespace",
                &["ip_family", "limit"],
            )?,
            repairs: own.counters(
                "chain_repairs_total",
                "Fixed chains rewritten because they held third-party rules",
                &["ip_family", "table"],
            )?,
            // From one small chain to the 256 MiB beyond any full payload.
            payload_bytes: own.histograms(
                "restore_payload_bytes",
                "Size of the text given to iptables-restore",
                &["scope"],
                exponential_buckets(256.0, 4.0, 11)?,
            )?,
            lock_wait: own.add(GenericCounterVec::new(waits, FAMILY)?)?,
        })
    }
}

/// Services that make restores fail.
#[derive(Debug, Clone)]
pub(super) struct Quarantine {
    pub(super) now: IntGaugeVec,
    pub(super) services: IntCounterVec,
    pub(super) restores: IntCounterVec,
}

impl Quarantine {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let own = Names::own(registry);
        Ok(Self {
            now: own.gauges(
                "quarantined_services",
                "Services whose changes are not applied because they make restores fail",
                FAMILY,
            )?,
            services: own.counters(
                "quarantines_total",
                "Services put into quarantine, by how their restore failed",
                &["ip_family", "cause"],
            )?,
            restores: own.counters(
                "isolation_restores_total",
                "Restores made to find Services that make restores fail, and to retry these",
                &["ip_family", "result"],
            )?,
        })
    }
}

/// Rules that other programs change.
#[derive(Debug, Clone)]
pub(super) struct Drift {
    pub(super) checks: IntCounterVec,
    pub(super) failed: IntCounterVec,
    pub(super) chains: IntCounterVec,
    pub(super) repaired: HistogramVec,
    pub(super) verified: GaugeVec,
    pub(super) is_clean: IntGaugeVec,
    pub(super) contested: IntGaugeVec,
}

impl Drift {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let own = Names::own(registry);
        Ok(Self {
            checks: own.counters(
                "rule_checks_total",
                "Checks of our rules in the kernel, by what triggered them",
                &["ip_family", "trigger"],
            )?,
            failed: own.counters(
                "rule_checks_failed_total",
                "Checks of our rules that could not read all they wanted to",
                FAMILY,
            )?,
            chains: own.counters(
                "drifted_chains_total",
                "Chains found to hold other rules than were applied",
                &["ip_family", "table", "kind"],
            )?,
            // From a repair after an event to one that backs off.
            repaired: own.histograms(
                "drift_repair_duration_seconds",
                "Time from finding changed rules to having repaired them",
                FAMILY,
                exponential_buckets(0.005, 2.0, 15)?,
            )?,
            verified: own.stamps(
                "rules_last_verified_timestamp_seconds",
                "When all rules in the kernel were last compared with the applied ones",
            )?,
            is_clean: own.gauges(
                "rules_verified",
                "Whether the last check found the applied rules in the kernel",
                FAMILY,
            )?,
            contested: own.gauges(
                "contested_chains",
                "Chains that another program changes again and again, so that repairs wait",
                FAMILY,
            )?,
        })
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

#[cfg(test)]
mod tests {
    #[test]
    fn programming_buckets_are_counted() {
        assert_eq!(super::programming_buckets().len(), 1 + 2 + 59 + 12 + 7);
    }
}
