//! Metrics of shadow mode, which a daemon in another mode does not export.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec, Registry, Result, exponential_buckets};

use super::factory::{FAMILY, MetricFactory, OWN, add, set};
use crate::net::IpFamily;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShadowProxy {
    /// The kube-proxy of the node.
    KubeProxy,
    /// This program, if it wrote rules.
    Deltaproxy,
}

/// Metrics of the comparison with a kube-proxy. Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct ShadowMetrics {
    differences: IntGaugeVec,
    waiting: IntGaugeVec,
    lags: HistogramVec,
    payload_bytes: IntCounterVec,
    kube_proxy_bytes: IntCounterVec,
}

impl ShadowMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let own = MetricFactory::new(registry, OWN);
        Ok(Self {
            differences: own.gauges(
                "shadow_differences",
                "Number of differences between the rules of kube-proxy and the desired ones that last for more than a minute",
                &["ip_family", "kind"],
            )?,
            waiting: own.gauges(
                "shadow_waiting_services",
                "Number of Services with a change that kube-proxy has not written for more than a minute",
                FAMILY,
            )?,
            lags: own.histograms(
                "shadow_lag_seconds",
                "Time in seconds from a change in the cluster to the rules of kube-proxy in the kernel, and to the payload that deltaproxy would have restored",
                &["ip_family", "proxy"],
                exponential_buckets(0.005, 2.0, 16)?,
            )?,
            payload_bytes: own.counters(
                "shadow_payload_bytes_total",
                "Size in bytes of the payloads that deltaproxy would have restored after its first sync",
                FAMILY,
            )?,
            kube_proxy_bytes: own.counters(
                "shadow_kube_proxy_bytes_total",
                "Size in bytes of the chains that kube-proxy has written, a lower bound of its restores; nft only",
                FAMILY,
            )?,
        })
    }

    pub(crate) fn lag(&self, family: IpFamily, proxy: ShadowProxy, lag: Duration) {
        let proxy = match proxy {
            ShadowProxy::KubeProxy => "kube-proxy",
            ShadowProxy::Deltaproxy => "deltaproxy",
        };
        self.lags
            .with_label_values(&[family.as_str(), proxy])
            .observe(lag.as_secs_f64());
    }

    pub(crate) fn differences(&self, family: IpFamily, kind: &str, count: usize) {
        set(&self.differences, &[family.as_str(), kind], count);
    }

    /// Sets the number of Services that have waited for kube-proxy for more than a minute.
    pub(crate) fn waiting(&self, family: IpFamily, services: usize) {
        set(&self.waiting, &[family.as_str()], services);
    }

    /// Counts a payload that would have been restored.
    pub(crate) fn payload(&self, family: IpFamily, bytes: u64) {
        add(&self.payload_bytes, &[family.as_str()], bytes);
    }

    /// Counts chains that kube-proxy has written.
    pub(crate) fn kube_proxy(&self, family: IpFamily, bytes: u64) {
        add(&self.kube_proxy_bytes, &[family.as_str()], bytes);
    }
}
