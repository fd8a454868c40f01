//! Metrics of health: responses of its server, and health check node ports that are not served.

use prometheus::{IntCounterVec, IntGaugeVec, Registry, Result};

use super::factory::{FAMILY, MetricFactory, OWN, UPSTREAM, count, set};
use crate::net::IpFamily;

/// Metrics of health. Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct HealthMetrics {
    healthz: IntCounterVec,
    livez: IntCounterVec,
    checks_over_limit: IntGaugeVec,
}

impl HealthMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = MetricFactory::new(registry, UPSTREAM);
        let by_code = |name, help| -> Result<IntCounterVec> {
            let counters = up.counters(name, help, &["code"])?;
            for code in ["200", "503"] {
                counters.with_label_values(&[code]);
            }
            Ok(counters)
        };
        Ok(Self {
            healthz: by_code(
                "proxy_healthz_total",
                "Number of /healthz responses by status code",
            )?,
            livez: by_code(
                "proxy_livez_total",
                "Number of /livez responses by status code",
            )?,
            checks_over_limit: MetricFactory::new(registry, OWN).gauges(
                "health_check_ports_over_limit",
                "Number of Services whose health check node port is not served because of the limit of open files",
                FAMILY,
            )?,
        })
    }

    /// Counts a response of `/healthz` with this status code.
    pub(crate) fn healthz(&self, code: &str) {
        count(&self.healthz, &[code]);
    }

    /// Counts a response of `/livez` with this status code.
    pub(crate) fn livez(&self, code: &str) {
        count(&self.livez, &[code]);
    }

    /// Sets the number of Services whose health check node port is not served for want of a socket.
    pub(crate) fn checks_over_limit(&self, family: IpFamily, services: usize) {
        set(&self.checks_over_limit, &[family.as_str()], services);
    }
}
