//! Factory of metrics: makes them with the prefix and stability note of their group, and registers
//! them.

use prometheus::core::Collector;
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, Result,
};

/// Makes metrics of one prefix and registers them.
pub(super) struct MetricFactory<'a> {
    registry: &'a Registry,
    prefix: &'static str,
    stability: &'static str,
}

impl<'a> MetricFactory<'a> {
    /// Makes `kubeproxy_` metrics, all of which kube-proxy marks as alpha.
    pub(super) const fn upstream(registry: &'a Registry) -> Self {
        Self {
            registry,
            prefix: "kubeproxy",
            stability: "[ALPHA] ",
        }
    }

    /// Makes `kubernetes_` metrics, which all components of Kubernetes have.
    pub(super) const fn kubernetes(registry: &'a Registry) -> Self {
        Self {
            registry,
            prefix: "kubernetes",
            stability: "[ALPHA] ",
        }
    }

    /// Makes `rest_client_` metrics, about requests to the API server.
    pub(super) const fn rest_client(registry: &'a Registry) -> Self {
        Self {
            registry,
            prefix: "rest_client",
            stability: "[ALPHA] ",
        }
    }

    /// Makes `deltaproxy_` metrics, which kube-proxy does not have.
    pub(super) const fn own(registry: &'a Registry) -> Self {
        Self {
            registry,
            prefix: "deltaproxy",
            stability: "",
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
