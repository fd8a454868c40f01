//! Document of the page `/shadow`: how the rules of the kube-proxy of a node differ from those that
//! deltaproxy would have written, and how long changes of the cluster took until both had them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::net::{IpFamily, Locked};

/// Differences that the document lists, of each family. All are counted.
pub(crate) const MOST_DIFFERENCES: usize = 100;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShadowDocument {
    pub(crate) node: String,
    pub(crate) version: String,
    pub(crate) started_at: Timestamp,
    pub(crate) observed_at: Timestamp,
    pub(crate) families: Vec<ShadowFamily>,
}

/// Comparison of one family since the start of the process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShadowFamily {
    pub(crate) family: String,
    /// Backend of the rules; empty until its binaries are found.
    pub(crate) backend: String,
    /// Other backend, if it has rules of a proxy: these are not compared. Otherwise empty.
    pub(crate) other_backend: String,
    /// Number of Services that have rules.
    pub(crate) services: u64,
    /// Number of Services with a change that the kernel does not have yet.
    pub(crate) waiting_services: u64,
    /// Number of Services whose rules in the kernel differ from the desired ones at the moment.
    pub(crate) differing_services: u64,
    /// Times from changes of the cluster to the rules of kube-proxy in the kernel.
    pub(crate) kube_proxy_lag: LagHistogram,
    /// The part of these whose changes have a trigger time, as kube-proxy's
    /// `network_programming_duration_seconds` counts them.
    pub(crate) kube_proxy_triggered_lag: LagHistogram,
    /// Number of changes whose time to the rules is unknown, because their write was not detected,
    /// or because kube-proxy wrote nothing for too long.
    pub(crate) unmeasured_changes: u64,
    /// Times from the same changes to the payload that deltaproxy would have restored.
    pub(crate) own_lag: LagHistogram,
    /// Payloads that deltaproxy would have restored.
    pub(crate) own_payloads: ShadowPayloads,
    /// Size of the chains that kube-proxy has written: a lower bound of its restores. `None` on
    /// legacy, where the kernel does not report which chains change.
    pub(crate) kube_proxy_bytes_at_least: Option<u64>,
    pub(crate) readings: ShadowReadings,
    /// Differences that last longer than kube-proxy takes to sync.
    pub(crate) difference_count: u64,
    /// Those of them that have an effect on packets: all but stale chains.
    pub(crate) differences_affecting_packets: u64,
    /// The first of them, by Service.
    pub(crate) differences: Vec<ShadowDifference>,
}

/// Payloads after the first sync, which would have adopted the rules of kube-proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShadowPayloads {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShadowReadings {
    pub(crate) count: u64,
    pub(crate) failed: u64,
    /// CPU time of this family during all of them, with that of the iptables binaries.
    pub(crate) cpu_seconds: f64,
}

/// Difference between the rules in the kernel and the desired ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ShadowDifference {
    /// Namespace and name; empty for rules that belong to no Service.
    pub(crate) service: String,
    pub(crate) kind: ShadowKind,
    pub(crate) table: String,
    pub(crate) chain: String,
    /// Age in seconds.
    pub(crate) seconds: u64,
    /// The Service has a change that kube-proxy has not written. If not, its rules were as desired
    /// and changed, or never were as desired.
    pub(crate) is_waiting: bool,
}

enum_of_words! {
    all
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum ShadowKind {
        /// A chain of a Service is missing.
        MissingChain = "missing_chain",
        /// A chain of a Service has other rules.
        ChangedChain = "changed_chain",
        /// A chain of no Service.
        StaleChain = "stale_chain",
        /// A chain that all Services share lacks a rule of a Service.
        MissingRule = "missing_rule",
        /// Such a chain has a rule that the Service does not have anymore.
        StaleRule = "stale_rule",
        /// A chain whose rules depend on options alone lacks rules or has others.
        FixedChain = "fixed_chain",
        /// A jump from a built-in chain, or to `KUBE-NODEPORTS`, is missing.
        Jump = "jump",
    }
}

impl ShadowKind {
    /// Reports whether packets can be treated differently: no rule jumps to a stale chain, or that
    /// rule is a difference of its own.
    pub(crate) const fn affects_packets(self) -> bool {
        !matches!(self, Self::StaleChain)
    }
}

/// Upper bound of the first bucket, in seconds.
const FIRST_BUCKET: f64 = 0.001;

/// Ratio of the bounds of neighboring buckets: quantiles are at most 10 % too long.
const BUCKET_RATIO: f64 = 1.1;

/// Durations by buckets that are narrow enough for quantiles, and that histograms of several nodes
/// can be added by.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LagHistogram {
    pub(crate) count: u64,
    pub(crate) sum_seconds: f64,
    pub(crate) max_seconds: f64,
    /// Bucket N ends at 1 ms times 1.1 to the power of N.
    buckets: BTreeMap<u16, u64>,
}

impl LagHistogram {
    pub(crate) fn add(&mut self, lag: Duration) {
        let seconds = lag.as_secs_f64();
        self.count += 1;
        self.sum_seconds += seconds;
        self.max_seconds = self.max_seconds.max(seconds);
        let mut bucket = 0;
        while bucket < u16::MAX && seconds > upper_bound(bucket) {
            bucket += 1;
        }
        *self.buckets.entry(bucket).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_seconds += other.sum_seconds;
        self.max_seconds = self.max_seconds.max(other.max_seconds);
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
    }

    /// Returns the duration in seconds that this percentage of all does not exceed: the end of its
    /// bucket, or the longest duration, if that is shorter. `None` without durations.
    pub(crate) fn percentile(&self, percent: u64) -> Option<f64> {
        let rank = (self.count * percent).div_ceil(100);
        let mut below = 0;
        let bucket = self.buckets.iter().find(|(_, count)| {
            below += **count;
            below >= rank
        });
        bucket.map(|(bucket, _)| upper_bound(*bucket).min(self.max_seconds))
    }
}

/// Returns the end of a bucket, in seconds.
fn upper_bound(bucket: u16) -> f64 {
    FIRST_BUCKET * BUCKET_RATIO.powi(bucket.into())
}

/// State of one family for the page. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct ShadowLog(Arc<Locked<ShadowFamily>>);

impl ShadowLog {
    pub(crate) fn new(family: IpFamily) -> Self {
        Self(Arc::new(Locked::new(ShadowFamily {
            family: family.to_string(),
            ..ShadowFamily::default()
        })))
    }

    /// Replaces the state, except for the other backend, which another task looks for.
    pub(crate) fn set(&self, mut state: ShadowFamily) {
        let mut known = self.0.lock();
        state.other_backend = std::mem::take(&mut known.other_backend);
        *known = state;
    }

    pub(crate) fn set_other_backend(&self, backend: String) {
        self.0.lock().other_backend = backend;
    }

    pub(crate) fn get(&self) -> ShadowFamily {
        self.0.lock().clone()
    }
}

#[cfg(test)]
#[path = "tests/shadow.rs"]
mod tests;
