//! Metrics of syncs, as one method for each thing that a sync reports.
//!
//! Callers name no metric. No clock is read here: times are arguments.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/metrics/metrics.go` (v1.36)

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::{GaugeVec, HistogramVec, Registry, Result};

use crate::net::IpFamily;

use super::sync_families::{
    ChangeMetrics, DriftMetrics, QuarantineMetrics, RestoreMetrics, RuleMetrics, TimingMetrics,
};

/// Kind of a sync or restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncKind {
    /// Writes all rules.
    Full,
    /// Writes changed rules.
    Partial,
}

impl SyncKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
        }
    }
}

/// Traffic policy that leaves a service port without endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalPolicy {
    /// `internalTrafficPolicy: Local`.
    Internal,
    /// `externalTrafficPolicy: Local`.
    External,
}

/// Metrics of all syncs. Clones share their values.
#[derive(Debug, Clone)]
pub struct SyncMetrics {
    timings: TimingMetrics,
    changes: ChangeMetrics,
    rules: RuleMetrics,
    restores: RestoreMetrics,
    quarantine: QuarantineMetrics,
    drift: DriftMetrics,
}

impl SyncMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        Ok(Self {
            timings: TimingMetrics::register(registry)?,
            changes: ChangeMetrics::register(registry)?,
            rules: RuleMetrics::register(registry)?,
            restores: RestoreMetrics::register(registry)?,
            quarantine: QuarantineMetrics::register(registry)?,
            drift: DriftMetrics::register(registry)?,
        })
    }

    /// Records the duration of a sync, successful or not.
    pub fn synced(&self, family: IpFamily, kind: SyncKind, took: Duration) {
        let of_kind = match kind {
            SyncKind::Full => &self.timings.full,
            SyncKind::Partial => &self.timings.partial,
        };
        for histogram in [&self.timings.all, of_kind] {
            observe(histogram, family, took);
        }
    }

    /// Creates the series of a family that is served, for all reasons of full syncs and causes of
    /// failed restores: Prometheus does not see the appearance of a series at 1 as an increase.
    pub fn serving(&self, family: IpFamily, reasons: &[&str], causes: &[&str]) {
        for cause in causes {
            let labels = [family.as_str(), cause];
            self.quarantine.services.with_label_values(&labels);
        }
        for result in ["applied", "failed"] {
            let labels = [family.as_str(), result];
            self.quarantine.restores.with_label_values(&labels);
        }
        self.in_quarantine(family, 0);
        for reason in reasons {
            let labels = [family.as_str(), reason];
            self.restores.full_syncs.with_label_values(&labels);
        }
    }

    /// Counts a full sync, successful or not, by the reason for which it was full.
    pub fn full_sync(&self, family: IpFamily, reason: &str) {
        let labels = [family.as_str(), reason];
        self.restores.full_syncs.with_label_values(&labels).inc();
    }

    /// Sets whether the last check of the rules could not read this table.
    pub fn unreadable(&self, family: IpFamily, table: &str, is_unreadable: bool) {
        self.restores
            .unreadable
            .with_label_values(&[family.as_str(), table])
            .set(i64::from(is_unreadable));
    }

    /// Sets the number of Services over this limit.
    pub fn over_limit(&self, family: IpFamily, limit: &str, services: usize) {
        self.restores
            .over_limit
            .with_label_values(&[family.as_str(), limit])
            .set(gauge(services));
    }

    /// Sets the number of frontends that several service ports claim.
    pub fn frontend_conflicts(&self, family: IpFamily, conflicts: usize) {
        self.restores
            .conflicts
            .with_label_values(&[family.as_str()])
            .set(gauge(conflicts));
    }

    /// Counts a fixed chain of this table that is rewritten because of third-party rules in it.
    pub fn chain_repaired(&self, family: IpFamily, table: &str) {
        let labels = [family.as_str(), table];
        self.restores.repairs.with_label_values(&labels).inc();
    }

    /// Creates the series of checks of a family that is served, for all triggers.
    pub fn checking(&self, family: IpFamily, triggers: &[&str]) {
        for trigger in triggers {
            self.drift
                .checks
                .with_label_values(&[family.as_str(), trigger]);
        }
        self.drift.failed.with_label_values(&[family.as_str()]);
        self.contested(family, 0);
    }

    /// Counts a check of the rules; `is_clean`: it found the applied ones.
    pub fn checked(&self, family: IpFamily, trigger: &str, is_clean: bool) {
        let labels = [family.as_str(), trigger];
        self.drift.checks.with_label_values(&labels).inc();
        self.drift
            .is_clean
            .with_label_values(&[family.as_str()])
            .set(i64::from(is_clean));
    }

    /// Counts a comparison of all rules that could not read a table.
    pub fn check_failed(&self, family: IpFamily) {
        let label = [family.as_str()];
        self.drift.failed.with_label_values(&label).inc();
    }

    /// Sets the time of the last comparison of all rules.
    pub fn verified(&self, family: IpFamily, at: SystemTime) {
        set_timestamp(&self.drift.verified, family, at);
    }

    /// Counts chains of a table that hold other rules than were applied.
    pub fn drifted(&self, family: IpFamily, table: &str, kind: &str, chains: usize) {
        self.drift
            .chains
            .with_label_values(&[family.as_str(), table, kind])
            .inc_by(chains as u64);
    }

    /// Records the time from finding changed rules to having repaired them.
    pub fn repaired(&self, family: IpFamily, after: Duration) {
        observe(&self.drift.repaired, family, after);
        self.drift
            .is_clean
            .with_label_values(&[family.as_str()])
            .set(1);
    }

    /// Sets the number of chains that another program changes repeatedly.
    pub fn contested(&self, family: IpFamily, chains: usize) {
        self.drift
            .contested
            .with_label_values(&[family.as_str()])
            .set(gauge(chains));
    }

    /// Counts a Service that is put into quarantine, by the cause of its failed restore.
    pub fn quarantined(&self, family: IpFamily, cause: &str) {
        let labels = [family.as_str(), cause];
        self.quarantine.services.with_label_values(&labels).inc();
    }

    /// Sets the number of Services in quarantine.
    pub fn in_quarantine(&self, family: IpFamily, services: usize) {
        let gauges = &self.quarantine.now;
        gauges
            .with_label_values(&[family.as_str()])
            .set(gauge(services));
    }

    /// Counts restores made to find or retry Services that make restores fail; `failed` of them
    /// failed.
    pub fn isolated(&self, family: IpFamily, restores: usize, failed: usize) {
        let applied = restores.saturating_sub(failed);
        for (result, restores) in [("applied", applied), ("failed", failed)] {
            self.quarantine
                .restores
                .with_label_values(&[family.as_str(), result])
                .inc_by(restores as u64);
        }
    }

    /// Sets the time of the last successful sync.
    pub fn succeeded(&self, family: IpFamily, at: SystemTime) {
        set_timestamp(&self.timings.last, family, at);
    }

    /// Sets the time at which a sync was last queued.
    pub fn queued(&self, family: IpFamily, at: SystemTime) {
        set_timestamp(&self.timings.last_queued, family, at);
    }

    /// Counts a failed restore.
    pub fn restore_failed(&self, family: IpFamily, kind: SyncKind) {
        let label = [family.as_str()];
        self.restores.failures.with_label_values(&label).inc();
        if kind == SyncKind::Partial {
            self.restores
                .partial_failures
                .with_label_values(&label)
                .inc();
        }
    }

    /// Records the payload size of a successful restore.
    pub fn restored(&self, kind: SyncKind, bytes: u64) {
        #[expect(clippy::cast_precision_loss, reason = "exact up to petabytes")]
        let bytes = bytes as f64;
        self.restores
            .payload_bytes
            .with_label_values(&[kind.as_str()])
            .observe(bytes);
    }

    /// Adds time that a restore waited for the xtables lock, whether it got the lock or not.
    pub fn lock_waited(&self, family: IpFamily, wait: Duration) {
        self.restores
            .lock_wait
            .with_label_values(&[family.as_str()])
            .inc_by(wait.as_secs_f64());
    }

    /// Sets the number of rules that the proxy owns in a table, and that the last payload wrote.
    /// `table` is `filter` or `nat`.
    pub fn rules(&self, family: IpFamily, table: &str, total: usize, last: usize) {
        let labels = [table, family.as_str()];
        self.rules
            .total
            .with_label_values(&labels)
            .set(gauge(total));
        self.rules.last.with_label_values(&labels).set(gauge(last));
    }

    /// Records the time from the trigger of an endpoint change to its rules in the kernel.
    pub fn programmed(&self, family: IpFamily, latency: Duration) {
        observe(&self.timings.programming, family, latency);
    }

    /// Counts a change of an `EndpointSlice`.
    pub fn endpoint_change(&self) {
        self.changes.endpoints.inc();
    }

    /// Counts a change of a Service.
    pub fn service_change(&self) {
        self.changes.services.inc();
    }

    /// Sets the numbers of Services and `EndpointSlices` of the family whose current state is not
    /// in the kernel yet.
    ///
    /// Differs from upstream: there either family overwrites the number of Services of the other
    /// one, and slices count once for each change, until any sync of any family begins.
    pub fn pending(&self, family: IpFamily, services: usize, slices: usize) {
        self.changes.services_pending.set(family, gauge(services));
        self.changes.endpoints_pending.set(family, gauge(slices));
    }

    /// Sets the number of service ports that have endpoints, but none that the local policy
    /// allows.
    pub fn no_local_endpoints(&self, family: IpFamily, policy: LocalPolicy, ports: usize) {
        let policy = match policy {
            LocalPolicy::Internal => "internal",
            LocalPolicy::External => "external",
        };
        self.rules
            .no_local_endpoints
            .with_label_values(&[policy, family.as_str()])
            .set(gauge(ports));
    }

    /// Records the duration of a conntrack cleanup and the number of entries it deleted.
    pub fn conntrack_cleaned(&self, family: IpFamily, took: Duration, deleted: u64) {
        observe(&self.timings.conntrack, family, took);
        self.restores
            .conntrack_deleted
            .with_label_values(&[family.as_str()])
            .inc_by(deleted);
    }
}

fn observe(histogram: &HistogramVec, family: IpFamily, value: Duration) {
    histogram
        .with_label_values(&[family.as_str()])
        .observe(value.as_secs_f64());
}

fn set_timestamp(gauges: &GaugeVec, family: IpFamily, at: SystemTime) {
    // A clock before 1970 counts as 1970.
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    gauges
        .with_label_values(&[family.as_str()])
        .set(since.as_secs_f64());
}

fn gauge(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "tests/sync.rs"]
mod tests;
