//! Requests to the API server, counted and timed as client-go does it.
//!
//! Apart from the client so that names and buckets stand beside all others, and because a request
//! that is given up must be counted, too: it is counted when it is dropped.
//!
//! # Source
//!
//! Upstream: `staging/src/k8s.io/component-base/metrics/prometheus/restclient/metrics.go`,
//! `staging/src/k8s.io/client-go/rest/request.go` (v1.36)
//!
//! Differs from upstream: a request has taken its time once the head of the answer is there, since
//! lists are taken in piece by piece.

use std::time::{Duration, Instant};

use http::{Request, StatusCode};
use prometheus::{HistogramVec, IntCounterVec, Registry, Result};

use super::register::Names;

/// What client-go says for a request without an answer.
const NO_ANSWER: &str = "<error>";

/// Upstream's buckets, in seconds.
const SECONDS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// The metrics of requests. Clones share their values.
#[derive(Debug, Clone)]
pub struct RequestMetrics {
    total: IntCounterVec,
    durations: HistogramVec,
}

impl RequestMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = Names::rest_client(registry);
        Ok(Self {
            total: up.counters(
                "requests_total",
                "Requests to the API server by status, method and server",
                &["code", "method", "host"],
            )?,
            durations: up.histograms(
                "request_duration_seconds",
                "Time until requests other than watches were answered",
                &["verb", "host"],
                SECONDS.to_vec(),
            )?,
        })
    }

    /// A request that goes out now.
    pub fn sent<B>(&self, request: &Request<B>) -> Sent {
        let uri = request.uri();
        let host = uri.authority().map_or("", |authority| authority.as_str());
        let query = uri.query().unwrap_or_default();
        Sent {
            metrics: self.clone(),
            method: request.method().as_str().to_owned(),
            host: host.to_owned(),
            since: (!query.split('&').any(|pair| pair == "watch=true")).then(now),
            status: None,
        }
    }

    fn count(&self, sent: &Sent) {
        let code = sent.status.as_ref().map_or(NO_ANSWER, StatusCode::as_str);
        let labels = [code, &sent.method, &sent.host];
        self.total.with_label_values(&labels).inc();
        if let Some(since) = sent.since {
            self.time(sent, now().saturating_duration_since(since));
        }
    }

    fn time(&self, sent: &Sent, took: Duration) {
        let labels = [&sent.method, &sent.host];
        let timer = self.durations.with_label_values(&labels);
        timer.observe(took.as_secs_f64());
    }
}

/// A request on its way. It counts once dropped.
#[derive(Debug)]
#[must_use = "it is counted when it is dropped"]
pub struct Sent {
    metrics: RequestMetrics,
    method: String,
    host: String,
    /// `None` for a watch, which takes as long as it is left to.
    since: Option<Instant>,
    status: Option<StatusCode>,
}

impl Sent {
    /// The server has said this.
    pub fn answered(mut self, status: StatusCode) {
        self.status = Some(status);
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.metrics.count(self);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where a request meets the clock"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn answers_and_failures_count_and_watches_take_no_time() {
        let registry = Registry::new();
        let metrics = RequestMetrics::register(&registry).unwrap();
        let list = "https://10.0.0.1:6443/api/v1/services?limit=500";
        let watch = "https://10.0.0.1:6443/api/v1/services?watch=true&resourceVersion=1";
        for (uri, status) in [(list, Some(200)), (watch, Some(410)), (list, None)] {
            let request = Request::get(uri).body(()).unwrap();
            let sent = metrics.sent(&request);
            if let Some(status) = status {
                sent.answered(StatusCode::from_u16(status).unwrap());
            }
        }
        let text = TextEncoder::new()
            .encode_to_string(&registry.gather())
            .unwrap();
        let samples: Vec<_> = text
            .lines()
            .filter(|line| line.contains("_total{") || line.contains("_count{"))
            .collect();
        assert_eq!(
            samples,
            [
                r#"rest_client_request_duration_seconds_count{host="10.0.0.1:6443",verb="GET"} 2"#,
                r#"rest_client_requests_total{code="200",host="10.0.0.1:6443",method="GET"} 1"#,
                r#"rest_client_requests_total{code="410",host="10.0.0.1:6443",method="GET"} 1"#,
                r#"rest_client_requests_total{code="<error>",host="10.0.0.1:6443",method="GET"} 1"#,
            ]
        );
    }
}
