//! The one registry, and the law by which metrics are named.
//!
//! Apart because names are an interface: what kube-proxy has keeps its name, labels and buckets, so
//! that dashboards go on working; what is ours begins with `deltaproxy_`. HELP is in our own words.

use prometheus::core::Collector;
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, Result,
};

use super::build_info;
use super::{HealthMetrics, ProcessCollector, SyncMetrics, WatchMetrics};

/// All metrics of the process. Clones share their values.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// What a scrape gathers.
    pub registry: Registry,
    /// Of the syncs.
    pub sync: SyncMetrics,
    /// Of the health server.
    pub health: HealthMetrics,
    /// Of the watches.
    pub watch: WatchMetrics,
}

impl Metrics {
    /// Registers everything, each name once.
    ///
    /// # Errors
    ///
    /// Only if two metrics had the same name, which a test excludes.
    pub fn new() -> Result<Self> {
        let registry = Registry::new();
        registry.register(Box::new(ProcessCollector::new()?))?;
        let own = Names::own(&registry);
        own.gauges("build_info", "Always 1, labeled by version", &["version"])?
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        build_info::register(&registry)?;
        Ok(Self {
            sync: SyncMetrics::register(&registry)?,
            health: HealthMetrics::register(&registry)?,
            watch: WatchMetrics::register(&registry)?,
            registry,
        })
    }
}

/// Makes metrics of one prefix and puts them into the registry.
pub(super) struct Names<'a> {
    registry: &'a Registry,
    prefix: &'static str,
    stability: &'static str,
}

impl<'a> Names<'a> {
    /// kube-proxy's, all of which it calls alpha.
    pub(super) const fn upstream(registry: &'a Registry) -> Self {
        Self {
            registry,
            prefix: "kubeproxy",
            stability: "[ALPHA] ",
        }
    }

    /// What all programs of Kubernetes have.
    pub(super) const fn kubernetes(registry: &'a Registry) -> Self {
        Self {
            registry,
            prefix: "kubernetes",
            stability: "[ALPHA] ",
        }
    }

    /// Of requests to the API server.
    pub(super) const fn rest_client(registry: &'a Registry) -> Self {
        Self {
            registry,
            prefix: "rest_client",
            stability: "[ALPHA] ",
        }
    }

    /// Ours.
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

    /// A time stamp per family.
    pub(super) fn stamps(&self, name: &str, help: &str) -> Result<GaugeVec> {
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
