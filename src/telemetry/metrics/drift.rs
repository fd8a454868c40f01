//! Metrics of checks of the rules in the kernel, and of rules that other programs change.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/metrics/metrics.go` (v1.37)

use std::time::{Duration, SystemTime};

use prometheus::{
    GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec, Registry, Result, exponential_buckets,
};

use super::factory::{FAMILY, MetricFactory, OWN, count, observe, set, set_timestamp};
use crate::net::IpFamily;

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
        })
    }

    /// Creates the series of checks of a family that is served, for all triggers.
    pub fn checking(&self, family: IpFamily, triggers: &[&str]) {
        for trigger in triggers {
            self.checks.with_label_values(&[family.as_str(), trigger]);
        }
        self.failed.with_label_values(&[family.as_str()]);
        self.contested(family, 0);
    }

    /// Counts a check of the rules; `is_clean`: it found the applied ones.
    pub fn checked(&self, family: IpFamily, trigger: &str, is_clean: bool) {
        let labels = [family.as_str(), trigger];
        count(&self.checks, &labels);
        self.is_clean
            .with_label_values(&[family.as_str()])
            .set(i64::from(is_clean));
    }

    /// Counts a comparison of all rules that could not read a table.
    pub fn check_failed(&self, family: IpFamily) {
        count(&self.failed, &[family.as_str()]);
    }

    /// Sets the time of the last comparison of all rules.
    pub fn verified(&self, family: IpFamily, at: SystemTime) {
        set_timestamp(&self.verified, family, at);
    }

    /// Counts chains of a table that hold other rules than were applied.
    pub fn drifted(&self, family: IpFamily, table: &str, kind: &str, chains: usize) {
        self.chains
            .with_label_values(&[family.as_str(), table, kind])
            .inc_by(chains as u64);
    }

    /// Records the time from finding changed rules to having repaired them.
    pub fn repaired(&self, family: IpFamily, after: Duration) {
        observe(&self.repaired, family, after);
        self.is_clean.with_label_values(&[family.as_str()]).set(1);
    }

    /// Sets the number of chains that another program changes repeatedly.
    pub fn contested(&self, family: IpFamily, chains: usize) {
        set(&self.contested, &[family.as_str()], chains);
    }

    /// Sets whether the last check of the rules could not read this table.
    pub fn unreadable(&self, family: IpFamily, table: &str, is_unreadable: bool) {
        self.unreadable
            .with_label_values(&[family.as_str(), table])
            .set(i64::from(is_unreadable));
    }

    /// Counts a fixed chain of this table that is rewritten because of third-party rules in it.
    pub fn chain_repaired(&self, family: IpFamily, table: &str) {
        count(&self.repairs, &[family.as_str(), table]);
    }
}
