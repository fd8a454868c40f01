//! Metrics of lists and watches, of their requests to the API server, and of health requests.
//!
//! A request is counted when it is dropped, so that requests without a response count as well.
//!
//! # Source
//!
//! Upstream: `staging/src/k8s.io/component-base/metrics/prometheus/restclient/metrics.go`,
//! `staging/src/k8s.io/client-go/rest/request.go` (v1.36)
//!
//! Differs from upstream: the duration of a request ends with the head of the response, since
//! lists are decoded while they arrive.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::{Request, StatusCode};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{HistogramVec, IntCounterVec, Registry, Result};

use super::factory::MetricFactory;

/// Name and HELP.
const STALENESS: (&str, &str) = (
    "deltaproxy_watch_staleness_seconds",
    "Seconds since the last event, bookmark or complete list of the kind; before the first list, \
     since the start",
);

/// Status code label of client-go for a request without a response.
const NO_RESPONSE: &str = "<error>";

/// Upper bounds of upstream's buckets of request durations, in seconds.
const REQUEST_SECONDS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

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
        let own = MetricFactory::own(registry);
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
        self.errors.with_label_values(&[kind]).inc();
    }

    /// Counts an object that could not be decoded.
    pub(crate) fn undecodable(&self, kind: &str) {
        self.undecodable.with_label_values(&[kind]).inc();
    }
}

/// Metrics of the health server. Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct HealthMetrics {
    healthz: IntCounterVec,
    livez: IntCounterVec,
}

impl HealthMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = MetricFactory::upstream(registry);
        Ok(Self {
            healthz: up.counters(
                "proxy_healthz_total",
                "Number of /healthz responses by status code",
                &["code"],
            )?,
            livez: up.counters(
                "proxy_livez_total",
                "Number of /livez responses by status code",
                &["code"],
            )?,
        })
    }

    /// Counts a response of `/healthz` with this status code.
    pub(crate) fn healthz(&self, code: &str) {
        self.healthz.with_label_values(&[code]).inc();
    }

    /// Counts a response of `/livez` with this status code.
    pub(crate) fn livez(&self, code: &str) {
        self.livez.with_label_values(&[code]).inc();
    }
}

/// Times at which each kind of object was last known to be current; before its first list, the
/// time at which it began to be watched. Clones share their values.
///
/// A collector in place of a gauge, because ages grow between events: they are computed at each
/// scrape, and for each answer of the health server.
#[derive(Debug, Clone)]
pub(crate) struct WatchAges {
    current: Arc<Mutex<BTreeMap<&'static str, Instant>>>,
    desc: Desc,
}

impl WatchAges {
    /// Returns ages of no kind.
    pub(crate) fn new() -> Result<Self> {
        let (name, help) = STALENESS;
        let labels = vec!["kind".to_owned()];
        Ok(Self {
            current: Arc::default(),
            desc: Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())?,
        })
    }

    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let ages = Self::new()?;
        registry.register(Box::new(ages.clone()))?;
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
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for WatchAges {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let metrics: Vec<Metric> = self.ages().into_iter().map(sample).collect();
        if metrics.is_empty() {
            return Vec::new();
        }
        let (name, help) = STALENESS;
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(MetricType::GAUGE);
        family.set_metric(metrics);
        vec![family]
    }
}

fn sample((kind, age): (&'static str, Duration)) -> Metric {
    let mut label = LabelPair::default();
    label.set_name("kind".to_owned());
    label.set_value(kind.to_owned());
    let mut gauge = Gauge::default();
    gauge.set_value(age.as_secs_f64());
    let mut metric = Metric::from_label(vec![label]);
    metric.set_gauge(gauge);
    metric
}

/// Metrics of requests to the API server. Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct RequestMetrics {
    total: IntCounterVec,
    durations: HistogramVec,
}

impl RequestMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = MetricFactory::rest_client(registry);
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
        self.total.with_label_values(&labels).inc();
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

#[expect(
    clippy::disallowed_methods,
    reason = "latencies and ages are measured here"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn the_age_of_a_kind_that_was_never_listed_counts_from_the_start() {
        let registry = Registry::new();
        let ages = WatchAges::register(&registry).unwrap();
        ages.start("Service");
        let started = ages.kinds()["Service"];
        ages.start("Service");
        assert_eq!(ages.kinds()["Service"], started);
        let later = started + Duration::from_secs(3600);
        ages.kinds().insert("Service", later);
        ages.start("Service");
        assert_eq!(ages.kinds()["Service"], later);
        ages.current("Service");
        assert_ne!(ages.kinds()["Service"], later);
        let families = registry.gather();
        assert!(
            families[0]
                .help()
                .ends_with("before the first list, since the start")
        );
    }

    #[test]
    fn requests_without_a_response_count_and_watches_have_no_duration() {
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
