//! What is counted and timed about syncs.
//!
//! Apart from the syncs, so that these say what happened and never what a metric is called. No
//! clock is read here: times are arguments.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/metrics/metrics.go` (v1.36)

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::{GaugeVec, HistogramVec, Registry, Result};

use crate::net::IpFamily;

use super::sync_families::{Changes, Drift, Quarantine, Restores, Rules, Timings};

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
    timings: Timings,
    changes: Changes,
    rules: Rules,
    restores: Restores,
    quarantine: Quarantine,
    drift: Drift,
}

impl SyncMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        Ok(Self {
            timings: Timings::register(registry)?,
            changes: Changes::register(registry)?,
            rules: Rules::register(registry)?,
            restores: Restores::register(registry)?,
            quarantine: Quarantine::register(registry)?,
            drift: Drift::register(registry)?,
        })
    }

    /// A sync ended, well or not.
    pub fn synced(&self, family: IpFamily, attempt: Attempt, took: Duration) {
        let by_attempt = match attempt {
            Attempt::Full => &self.timings.full,
            Attempt::Partial => &self.timings.partial,
        };
        for histogram in [&self.timings.all, by_attempt] {
            observe(histogram, family, took);
        }
    }

    /// A family is served, and what can make a sync full, or a restore fail, is known: an increase
    /// from nothing to one would not be seen as one.
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

    /// A full sync ended, well or not, that was made for this reason.
    pub fn full_sync(&self, family: IpFamily, reason: &str) {
        let labels = [family.as_str(), reason];
        self.restores.full_syncs.with_label_values(&labels).inc();
    }

    /// Whether the last check of our rules could not read this table.
    pub fn unreadable(&self, family: IpFamily, table: &str, is_unreadable: bool) {
        self.restores
            .unreadable
            .with_label_values(&[family.as_str(), table])
            .set(i64::from(is_unreadable));
    }

    /// So many Services are over this limit.
    pub fn over_limit(&self, family: IpFamily, limit: &str, services: usize) {
        self.restores
            .over_limit
            .with_label_values(&[family.as_str(), limit])
            .set(gauge(services));
    }

    /// So many frontends are asked for by several service ports.
    pub fn frontend_conflicts(&self, family: IpFamily, conflicts: usize) {
        self.restores
            .conflicts
            .with_label_values(&[family.as_str()])
            .set(gauge(conflicts));
    }

    /// A fixed chain of this table is written anew because of third-party rules in it.
    pub fn chain_repaired(&self, family: IpFamily, table: &str) {
        let labels = [family.as_str(), table];
        self.restores.repairs.with_label_values(&labels).inc();
    }

    /// A family is served, and what can trigger a check is known.
    pub fn checking(&self, family: IpFamily, triggers: &[&str]) {
        for trigger in triggers {
            self.drift
                .checks
                .with_label_values(&[family.as_str(), trigger]);
        }
        self.drift.failed.with_label_values(&[family.as_str()]);
        self.contested(family, 0);
    }

    /// A check of our rules ended; `is_clean`: it found the applied rules.
    pub fn checked(&self, family: IpFamily, trigger: &str, is_clean: bool) {
        let labels = [family.as_str(), trigger];
        self.drift.checks.with_label_values(&labels).inc();
        self.drift
            .is_clean
            .with_label_values(&[family.as_str()])
            .set(i64::from(is_clean));
    }

    /// A check of our rules could not read all it wanted to.
    pub fn check_failed(&self, family: IpFamily) {
        let label = [family.as_str()];
        self.drift.failed.with_label_values(&label).inc();
    }

    /// All rules were compared.
    pub fn verified(&self, family: IpFamily, at: SystemTime) {
        stamp(&self.drift.verified, family, at);
    }

    /// So many chains of a table hold other rules than were applied.
    pub fn drifted(&self, family: IpFamily, table: &str, kind: &str, chains: usize) {
        self.drift
            .chains
            .with_label_values(&[family.as_str(), table, kind])
            .inc_by(chains as u64);
    }

    /// Rules that differed are repaired, so long after that was found.
    pub fn repaired(&self, family: IpFamily, after: Duration) {
        observe(&self.drift.repaired, family, after);
        self.drift
            .is_clean
            .with_label_values(&[family.as_str()])
            .set(1);
    }

    /// So many chains are changed again and again by another program.
    pub fn contested(&self, family: IpFamily, chains: usize) {
        self.drift
            .contested
            .with_label_values(&[family.as_str()])
            .set(gauge(chains));
    }

    /// A Service makes restores fail, for this cause.
    pub fn quarantined(&self, family: IpFamily, cause: &str) {
        let labels = [family.as_str(), cause];
        self.quarantine.services.with_label_values(&labels).inc();
    }

    /// So many Services are in quarantine.
    pub fn in_quarantine(&self, family: IpFamily, services: usize) {
        let gauges = &self.quarantine.now;
        gauges
            .with_label_values(&[family.as_str()])
            .set(gauge(services));
    }

    /// So many restores were made for Services that make restores fail; some of them failed.
    pub fn isolated(&self, family: IpFamily, restores: usize, failed: usize) {
        let applied = restores.saturating_sub(failed);
        for (result, restores) in [("applied", applied), ("failed", failed)] {
            self.quarantine
                .restores
                .with_label_values(&[family.as_str(), result])
                .inc_by(restores as u64);
        }
    }

    /// The kernel has everything that was asked for.
    pub fn succeeded(&self, family: IpFamily, at: SystemTime) {
        stamp(&self.timings.last, family, at);
    }

    /// A sync was asked for.
    pub fn queued(&self, family: IpFamily, at: SystemTime) {
        stamp(&self.timings.last_queued, family, at);
    }

    /// `iptables-restore` failed.
    pub fn restore_failed(&self, family: IpFamily, attempt: Attempt) {
        let label = [family.as_str()];
        self.restores.failures.with_label_values(&label).inc();
        if attempt == Attempt::Partial {
            self.restores
                .partial_failures
                .with_label_values(&label)
                .inc();
        }
    }

    /// `iptables-restore` succeeded with so much text.
    pub fn restored(&self, attempt: Attempt, bytes: u64) {
        #[expect(clippy::cast_precision_loss, reason = "exact up to petabytes")]
        let bytes = bytes as f64;
        self.restores
            .payload_bytes
            .with_label_values(&[attempt.as_str()])
            .observe(bytes);
    }

    /// A restore waited this long for the xtables lock, whether it got it or not.
    pub fn lock_waited(&self, family: IpFamily, wait: Duration) {
        self.restores
            .lock_wait
            .with_label_values(&[family.as_str()])
            .inc_by(wait.as_secs_f64());
    }

    /// How many rules of ours a table holds, and how many the last payload wrote. `table` is
    /// `filter` or `nat`.
    pub fn rules(&self, family: IpFamily, table: &str, total: usize, last: usize) {
        let labels = [table, family.as_str()];
        self.rules
            .total
            .with_label_values(&labels)
            .set(gauge(total));
        self.rules.last.with_label_values(&labels).set(gauge(last));
    }

    /// A change of endpoints reached the kernel so long after it was triggered.
    pub fn programmed(&self, family: IpFamily, latency: Duration) {
        observe(&self.timings.programming, family, latency);
    }

    /// An event of an `EndpointSlice` of the family was seen.
    pub fn endpoint_change(&self) {
        self.changes.endpoints.inc();
    }

    /// An event of a Service was seen.
    pub fn service_change(&self) {
        self.changes.services.inc();
    }

    /// So many Services and `EndpointSlices` of the family are not in the kernel as they are now.
    ///
    /// Differs from upstream: there either family overwrites what the other one has said of
    /// Services, and slices count once for each change, until any sync of any family begins.
    pub fn pending(&self, family: IpFamily, services: usize, slices: usize) {
        self.changes.services_pending.set(family, gauge(services));
        self.changes.endpoints_pending.set(family, gauge(slices));
    }

    /// How many service ports have endpoints, but none that their local policy allows.
    pub fn no_local_endpoints(&self, family: IpFamily, policy: Policy, ports: usize) {
        let policy = match policy {
            Policy::Internal => "internal",
            Policy::External => "external",
        };
        self.rules
            .no_local_endpoints
            .with_label_values(&[policy, family.as_str()])
            .set(gauge(ports));
    }

    /// Conntrack entries were looked through, and so many deleted.
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
