//! Metrics of the API server: its requests; failures of lists and watches, objects that cannot be
//! decoded, and ages of kinds.
//!
//! A request is counted when it is dropped, so that requests without a response count as well.
//!
//! # Source
//!
//! Upstream: `staging/src/k8s.io/component-base/metrics/prometheus/restclient/metrics.go`,
//! `staging/src/k8s.io/client-go/rest/request.go` (v1.37)
//!
//! Differs from upstream: the duration of a request ends with the head of the response, since
//! lists are decoded while they arrive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, StatusCode};
use prometheus::proto::MetricType;
use prometheus::{HistogramVec, IntCounterVec, Registry, Result};

use super::factory::{MetricFactory, OWN, count};
use super::process::ScrapedMetric;
use crate::clock;
use crate::net::Locked;

/// Metrics of lists and watches. Clones share their values. A kind is an object kind, as
/// `Service`.
#[derive(Debug, Clone)]
pub(crate) struct WatchMetrics {
    pub requests: RequestMetrics,
    /// Time since each kind was last known to be current, or began to be watched.
    pub ages: WatchAges,
    /// Lists and watches that ended with an error, by kind.
    pub errors: IntCounterVec,
    /// Objects that could not be decoded, by kind.
    pub undecodable: IntCounterVec,
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
}

/// Times at which each kind of object was last known to be current; before its first list, the
/// time at which it began to be watched. Clones share their values.
///
/// Ages grow between events, so they are computed at each scrape, and for each answer of the health
/// server.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchAges(Arc<Locked<BTreeMap<&'static str, Instant>>>);

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
        self.0.lock().entry(kind).or_insert_with(clock::instant);
    }

    /// Records that the known objects of the kind are current now.
    pub(crate) fn current(&self, kind: &'static str) {
        self.0.lock().insert(kind, clock::instant());
    }

    /// Returns the age of each kind, sorted by its name.
    pub(crate) fn ages(&self) -> Vec<(&'static str, Duration)> {
        let now = clock::instant();
        let kinds = self.0.lock();
        let age =
            |(kind, at): (&&'static str, &Instant)| (*kind, now.saturating_duration_since(*at));
        kinds.iter().map(age).collect()
    }
}

/// Status code label of client-go for a request without a response.
const NO_RESPONSE: &str = "<error>";

/// Upper bounds of upstream's buckets of request durations, in seconds.
const REQUEST_SECONDS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// Metrics of requests to the API server. Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct RequestMetrics {
    total: IntCounterVec,
    durations: HistogramVec,
}

impl RequestMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = MetricFactory::new(registry, "rest_client");
        Ok(Self {
            total: up.counters(
                "requests_total",
                "Number of API server requests by status code, method and host",
                &["code", "method", "host"],
            )?,
            durations: up.histograms(
                "request_duration_seconds",
                "Latency of API server requests in seconds, watches excluded",
                &["verb", "host"],
                REQUEST_SECONDS.to_vec(),
            )?,
        })
    }

    /// Starts to measure a request that is sent now.
    pub(crate) fn sent<B>(&self, request: &Request<B>) -> InFlightRequest {
        let uri = request.uri();
        let host = uri.authority().map_or("", |authority| authority.as_str());
        let query = uri.query().unwrap_or_default();
        InFlightRequest {
            metrics: self.clone(),
            method: request.method().as_str().to_owned(),
            host: host.to_owned(),
            since: (!query.split('&').any(|pair| pair == "watch=true")).then(clock::instant),
            status: None,
        }
    }

    fn count(&self, request: &InFlightRequest) {
        let code = request
            .status
            .as_ref()
            .map_or(NO_RESPONSE, StatusCode::as_str);
        let labels = [code, &request.method, &request.host];
        count(&self.total, &labels);
        if let Some(since) = request.since {
            let took = clock::instant().saturating_duration_since(since);
            let labels = [&request.method, &request.host];
            let durations = self.durations.with_label_values(&labels);
            durations.observe(took.as_secs_f64());
        }
    }
}

/// Request without a response yet. Counted when dropped.
#[derive(Debug)]
#[must_use = "it is counted when it is dropped"]
pub(crate) struct InFlightRequest {
    metrics: RequestMetrics,
    method: String,
    host: String,
    /// Time at which it was sent; `None` for a watch, which has no duration of its own.
    since: Option<Instant>,
    status: Option<StatusCode>,
}

impl InFlightRequest {
    pub(crate) fn answered(mut self, status: StatusCode) {
        self.status = Some(status);
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.metrics.count(self);
    }
}

#[cfg(test)]
#[path = "tests/watch.rs"]
mod tests;

#[cfg(test)]
#[path = "tests/requests.rs"]
mod requests_tests;
