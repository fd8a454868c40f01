//! Metrics of requests to the API server.
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

use std::time::Instant;

use http::{Request, StatusCode};
use prometheus::{HistogramVec, IntCounterVec, Registry, Result};

use super::factory::{MetricFactory, count};

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
            since: (!query.split('&').any(|pair| pair == "watch=true")).then(now),
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
            let took = now().saturating_duration_since(since);
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
    /// Records the status of the response.
    pub(crate) fn answered(mut self, status: StatusCode) {
        self.status = Some(status);
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.metrics.count(self);
    }
}

/// Returns the time, for latencies and ages.
#[expect(
    clippy::disallowed_methods,
    reason = "latencies and ages are measured here"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
#[path = "tests/requests.rs"]
mod tests;
