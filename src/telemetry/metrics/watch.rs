//! Metrics of lists and watches: failures, objects that cannot be decoded, and ages of kinds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus::proto::MetricType;
use prometheus::{IntCounterVec, Registry, Result};

use super::factory::{MetricFactory, OWN, count};
use super::requests::{RequestMetrics, now};
use super::scraped::ScrapedMetric;

/// Metrics of lists and watches. Clones share their values. A kind is an object kind, as
/// `Service`.
#[derive(Debug, Clone)]
pub(crate) struct WatchMetrics {
    /// Metrics of their requests.
    pub requests: RequestMetrics,
    /// Time since each kind was last known to be current, or began to be watched.
    pub ages: WatchAges,
    errors: IntCounterVec,
    undecodable: IntCounterVec,
}

impl WatchMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let own = MetricFactory::new(registry, OWN);
        // Prometheus does not see the appearance of a series at 1 as an increase.
        let by_kind = |name, help| -> Result<IntCounterVec> {
            let counters = own.counters(name, help, &["kind"])?;
            for kind in ["EndpointSlice", "Node", "Service"] {
                counters.with_label_values(&[kind]);
            }
            Ok(counters)
        };
        Ok(Self {
            requests: RequestMetrics::register(registry)?,
            ages: WatchAges::register(registry)?,
            errors: by_kind(
                "watch_errors_total",
                "Number of lists and watches that ended with an error",
            )?,
            undecodable: by_kind(
                "undecodable_objects_total",
                "Number of objects that could not be decoded; their last known state stays in use",
            )?,
        })
    }

    /// Counts a list or watch that ended with an error.
    pub(crate) fn failed(&self, kind: &str) {
        count(&self.errors, &[kind]);
    }

    /// Counts an object that could not be decoded.
    pub(crate) fn undecodable(&self, kind: &str) {
        count(&self.undecodable, &[kind]);
    }
}

/// Times at which each kind of object was last known to be current; before its first list, the
/// time at which it began to be watched. Clones share their values.
///
/// Ages grow between events, so they are computed at each scrape, and for each answer of the health
/// server.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchAges(Arc<Mutex<BTreeMap<&'static str, Instant>>>);

impl WatchAges {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let ages = Self::default();
        let scraped = ages.clone();
        let read = move || {
            let ages = scraped.ages().into_iter();
            ages.map(|(kind, age)| (kind, age.as_secs_f64())).collect()
        };
        let name = (
            "deltaproxy_watch_staleness_seconds",
            "Seconds since the last event, bookmark or complete list of the kind; before the first \
             list, since the start",
        );
        ScrapedMetric::register(registry, name, Some("kind"), MetricType::GAUGE, read)?;
        Ok(ages)
    }

    /// Starts the age of a kind that was not listed yet: a list that never completes must grow
    /// stale like a watch without events.
    pub(crate) fn start(&self, kind: &'static str) {
        self.kinds().entry(kind).or_insert_with(now);
    }

    /// Records that the known objects of the kind are current now.
    pub(crate) fn current(&self, kind: &'static str) {
        self.kinds().insert(kind, now());
    }

    /// Returns the age of each kind, sorted by its name.
    pub(crate) fn ages(&self) -> Vec<(&'static str, Duration)> {
        let now = now();
        let kinds = self.kinds();
        let age =
            |(kind, at): (&&'static str, &Instant)| (*kind, now.saturating_duration_since(*at));
        kinds.iter().map(age).collect()
    }

    fn kinds(&self) -> MutexGuard<'_, BTreeMap<&'static str, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "tests/watch.rs"]
mod tests;
