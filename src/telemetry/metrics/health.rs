//! Metrics of the health server: its responses.

use prometheus::{IntCounterVec, Registry, Result};

use super::factory::MetricFactory;

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
