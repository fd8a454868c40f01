//! Metrics of rules in the kernel: restores and full syncs, the Services that make restores fail,
//! checks, and rules that other programs change.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/metrics/metrics.go` (v1.37)

use std::time::{Duration, SystemTime};

use prometheus::core::{AtomicF64, GenericCounterVec};
use prometheus::{
    GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, Result, exponential_buckets,
};

use super::factory::{
    FAMILY, MetricFactory, OWN, UPSTREAM, add, count, observe, set, set_timestamp,
};
use crate::net::IpFamily;

enum_of_words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SyncKind {
        Full = "full",
        Partial = "partial",
    }
}

/// Restores, full syncs and their findings.
#[derive(Debug, Clone)]
pub struct RestoreMetrics {
    failures: IntCounterVec,
    partial_failures: IntCounterVec,
    full_syncs: IntCounterVec,
    conflicts: IntGaugeVec,
    other_backend: IntGaugeVec,
    over_limit: IntGaugeVec,
    payload_bytes: HistogramVec,
    lock_wait: GenericCounterVec<AtomicF64>,
}

impl RestoreMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let (up, own) = (
            MetricFactory::new(registry, UPSTREAM),
            MetricFactory::new(registry, OWN),
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
            full_syncs: own.counters(
                "full_syncs_total",
                "Number of full syncs by reason; flushed: another program removed or changed rules",
                &["ip_family", "reason"],
            )?,
            conflicts: own.gauges(
                "frontend_conflicts",
                "Number of addresses and ports that several Services claim; one of them gets each",
                FAMILY,
            )?,
            other_backend: own.gauges(
                "other_backend_has_rules",
                "1 if a proxy has rules in the other iptables backend: packets traverse both",
                FAMILY,
            )?,
            over_limit: own.gauges(
                "services_over_limit",
                "Number of Services that lack rules because of a limit of the Service or its namespace",
                &["ip_family", "limit"],
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

    /// Creates the counters of a family that is served, for all reasons of full syncs: Prometheus
    /// does not see the appearance of a series at 1 as an increase.
    ///
    /// Differs from upstream, where a counter appears with its first failure.
    pub fn serving(&self, family: IpFamily, reasons: &[&str]) {
        for counters in [&self.failures, &self.partial_failures] {
            counters.with_label_values(&[family.as_str()]);
        }
        self.lock_waited(family, Duration::ZERO);
        for reason in reasons {
            let labels = [family.as_str(), reason];
            self.full_syncs.with_label_values(&labels);
        }
    }

    pub fn full_sync(&self, family: IpFamily, reason: &str) {
        count(&self.full_syncs, &[family.as_str(), reason]);
    }

    pub fn over_limit(&self, family: IpFamily, limit: &str, services: usize) {
        set(&self.over_limit, &[family.as_str(), limit], services);
    }

    /// Sets the number of frontends that several service ports claim.
    pub fn frontend_conflicts(&self, family: IpFamily, conflicts: usize) {
        set(&self.conflicts, &[family.as_str()], conflicts);
    }

    /// Sets whether a proxy has rules in the backend that is not used.
    pub fn other_backend_has_rules(&self, family: IpFamily, has_rules: bool) {
        set(&self.other_backend, &[family.as_str()], has_rules.into());
    }

    pub fn restore_failed(&self, family: IpFamily, kind: SyncKind) {
        let label = [family.as_str()];
        count(&self.failures, &label);
        if kind == SyncKind::Partial {
            count(&self.partial_failures, &label);
        }
    }

    pub fn restored(&self, kind: SyncKind, bytes: u64) {
        #[expect(clippy::cast_precision_loss, reason = "exact up to petabytes")]
        let bytes = bytes as f64;
        self.payload_bytes
            .with_label_values(&[kind.as_str()])
            .observe(bytes);
    }

    /// Adds time that a restore waited for the xtables lock, whether it got the lock or not.
    pub fn lock_waited(&self, family: IpFamily, wait: Duration) {
        self.lock_wait
            .with_label_values(&[family.as_str()])
            .inc_by(wait.as_secs_f64());
    }
}

/// Services that make restores fail.
#[derive(Debug, Clone)]
pub struct QuarantineMetrics {
    now: IntGaugeVec,
    services: IntCounterVec,
    restores: IntCounterVec,
}

impl QuarantineMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let own = MetricFactory::new(registry, OWN);
        Ok(Self {
            now: own.gauges(
                "quarantined_services",
                "Number of Services whose changes are not applied because they make restores fail, or may",
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

    /// Creates the series of a family that is served, for all causes of failed restores.
    pub fn serving(&self, family: IpFamily, causes: &[&str]) {
        for cause in causes {
            let labels = [family.as_str(), cause];
            self.services.with_label_values(&labels);
        }
        for result in ["applied", "failed"] {
            let labels = [family.as_str(), result];
            self.restores.with_label_values(&labels);
        }
        self.in_quarantine(family, 0);
    }

    pub fn quarantined(&self, family: IpFamily, cause: &str) {
        count(&self.services, &[family.as_str(), cause]);
    }

    pub fn in_quarantine(&self, family: IpFamily, services: usize) {
        set(&self.now, &[family.as_str()], services);
    }

    /// Counts restores made to find or retry Services that make restores fail; `failed` of them
    /// failed.
    pub fn trial_restores(&self, family: IpFamily, restores: usize, failed: usize) {
        let applied = restores.saturating_sub(failed);
        for (result, restores) in [("applied", applied), ("failed", failed)] {
            add(&self.restores, &[family.as_str(), result], restores as u64);
        }
    }
}

/// Rules that other programs change.
#[derive(Debug, Clone)]
pub struct DriftMetrics {
    checks: IntCounterVec,
    failed: IntCounterVec,
    chains: IntCounterVec,
    repaired: HistogramVec,
    verified: GaugeVec,
    is_clean: IntGaugeVec,
    contested: IntGaugeVec,
    unreadable: IntGaugeVec,
    repairs: IntCounterVec,
    third_party: IntCounterVec,
}

impl DriftMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let own = MetricFactory::new(registry, OWN);
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
            unreadable: own.gauges(
                "unreadable_tables",
                "1 if the last check of the proxy's rules could not read the table",
                &["ip_family", "table"],
            )?,
            repairs: own.counters(
                "chain_repairs_total",
                "Number of fixed chains rewritten because they held third-party rules",
                &["ip_family", "table"],
            )?,
            third_party: own.counters(
                "third_party_chains_removed_total",
                "Number of third-party chains that another program removed with those of the proxy",
                &["ip_family", "table"],
            )?,
        })
    }

    /// Creates the counters of a family that is served, for all triggers of checks, tables and
    /// kinds of differences.
    pub fn checking(&self, family: IpFamily, triggers: &[&str], tables: &[&str], kinds: &[&str]) {
        for table in tables {
            self.repairs.with_label_values(&[family.as_str(), table]);
            self.third_party_removed(family, table, 0);
            for kind in kinds {
                self.drifted(family, table, kind, 0);
            }
        }
        for trigger in triggers {
            self.checks.with_label_values(&[family.as_str(), trigger]);
        }
        self.failed.with_label_values(&[family.as_str()]);
        self.contested(family, 0);
    }

    /// Counts a check of the rules; `is_clean`: it found the applied ones.
    pub fn checked(&self, family: IpFamily, trigger: &str, is_clean: bool) {
        count(&self.checks, &[family.as_str(), trigger]);
        set(&self.is_clean, &[family.as_str()], is_clean.into());
    }

    /// Counts a comparison of all rules that could not read a table.
    pub fn check_failed(&self, family: IpFamily) {
        count(&self.failed, &[family.as_str()]);
    }

    pub fn verified(&self, family: IpFamily, at: SystemTime) {
        set_timestamp(&self.verified, family, at);
    }

    /// Counts chains of a table that hold other rules than were applied.
    pub fn drifted(&self, family: IpFamily, table: &str, kind: &str, chains: usize) {
        add(&self.chains, &[family.as_str(), table, kind], chains as u64);
    }

    /// Records the time from finding changed rules to having repaired them.
    pub fn repaired(&self, family: IpFamily, after: Duration) {
        observe(&self.repaired, family, after);
        set(&self.is_clean, &[family.as_str()], 1);
    }

    /// Counts third-party chains of a table that another program removed with those of the proxy.
    pub fn third_party_removed(&self, family: IpFamily, table: &str, chains: usize) {
        add(&self.third_party, &[family.as_str(), table], chains as u64);
    }

    pub fn contested(&self, family: IpFamily, chains: usize) {
        set(&self.contested, &[family.as_str()], chains);
    }

    /// Sets whether the last check of the rules could not read this table.
    pub fn unreadable(&self, family: IpFamily, table: &str, is_unreadable: bool) {
        set(
            &self.unreadable,
            &[family.as_str(), table],
            is_unreadable.into(),
        );
    }

    /// Counts a fixed chain of this table that is rewritten because of third-party rules in it.
    pub fn chain_repaired(&self, family: IpFamily, table: &str) {
        count(&self.repairs, &[family.as_str(), table]);
    }
}
