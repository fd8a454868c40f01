//! Factory of metrics: makes them with the prefix and stability note of their group, and registers
//! them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::core::Collector;
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, Result,
};

use crate::net::IpFamily;

pub(super) const FAMILY: &[&str] = &["ip_family"];

/// Prefix of the metrics of kube-proxy.
pub(super) const UPSTREAM: &str = "kubeproxy";

/// Prefix of metrics that kube-proxy does not have.
pub(super) const OWN: &str = "deltaproxy";

/// Makes metrics of one prefix and registers them.
pub(super) struct MetricFactory<'a> {
    registry: &'a Registry,
    prefix: &'static str,
    stability: &'static str,
}

impl<'a> MetricFactory<'a> {
    /// Makes metrics with this prefix. kube-proxy marks all of its metrics as alpha.
    pub(super) fn new(registry: &'a Registry, prefix: &'static str) -> Self {
        Self {
            registry,
            prefix,
            stability: if prefix == OWN { "" } else { "[ALPHA] " },
        }
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> Result<IntCounter> {
        self.add(IntCounter::with_opts(self.opts(name, help))?)
    }

    pub(super) fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntCounterVec> {
        self.add(IntCounterVec::new(self.opts(name, help), labels)?)
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> Result<IntGauge> {
        self.add(IntGauge::with_opts(self.opts(name, help))?)
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec> {
        self.add(IntGaugeVec::new(self.opts(name, help), labels)?)
    }

    /// Gauges of Unix times in seconds, one for each IP family.
    pub(super) fn timestamps(&self, name: &str, help: &str) -> Result<GaugeVec> {
        self.add(GaugeVec::new(self.opts(name, help), &["ip_family"])?)
    }

    pub(super) fn histograms(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: Vec<f64>,
    ) -> Result<HistogramVec> {
        let opts = HistogramOpts::from(self.opts(name, help)).buckets(buckets);
        self.add(HistogramVec::new(opts, labels)?)
    }

    fn opts(&self, name: &str, help: &str) -> Opts {
        Opts::new(name, format!("{}{help}", self.stability)).namespace(self.prefix)
    }

    pub(super) fn add<C: Collector + Clone + 'static>(&self, metric: C) -> Result<C> {
        self.registry.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}

pub(super) fn observe(histogram: &HistogramVec, family: IpFamily, value: Duration) {
    histogram
        .with_label_values(&[family.as_str()])
        .observe(value.as_secs_f64());
}

pub(super) fn set_timestamp(gauges: &GaugeVec, family: IpFamily, at: SystemTime) {
    // A clock before 1970 counts as 1970.
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    gauges
        .with_label_values(&[family.as_str()])
        .set(since.as_secs_f64());
}

/// Adds to the counter with these labels.
pub(super) fn add(counters: &IntCounterVec, labels: &[&str], more: u64) {
    counters.with_label_values(labels).inc_by(more);
}

pub(super) fn count(counters: &IntCounterVec, labels: &[&str]) {
    counters.with_label_values(labels).inc();
}

pub(super) fn set(gauges: &IntGaugeVec, labels: &[&str], value: usize) {
    gauges.with_label_values(labels).set(gauge(value));
}

pub(super) fn gauge(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
