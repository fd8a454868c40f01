//! Metrics of watches and of health requests.
//!
//! Kept separate from [`metrics`](super::metrics) because other modules count these.

use prometheus::{IntCounterVec, Registry, Result};

use super::register::Names;
use super::{RequestMetrics, WatchAges};

/// The metrics of the watches. Clones share their values. A kind is an object kind, as
/// `Service`.
#[derive(Debug, Clone)]
pub struct WatchMetrics {
    /// Of the requests that they are made of.
    pub requests: RequestMetrics,
    /// When each kind was last known to be current.
    pub ages: WatchAges,
    errors: IntCounterVec,
    undecodable: IntCounterVec,
}

impl WatchMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let own = Names::own(registry);
        // From nothing to one would not be seen as an increase.
        let of_kinds = |name, help| -> Result<IntCounterVec> {
            let counters = own.counters(name, help, &["kind"])?;
            for kind in ["EndpointSlice", "Node", "Service"] {
                counters.with_label_values(&[kind]);
            }
            Ok(counters)
        };
        Ok(Self {
            requests: RequestMetrics::register(registry)?,
            ages: WatchAges::register(registry)?,
            errors: of_kinds(
                "watch_errors_total",
                "Lists and watches that ended with an error",
            )?,
            undecodable: of_kinds(
                "undecodable_objects_total",
                "Objects that could not be read; what was last known of them stands",
            )?,
        })
    }

    /// A list or watch ended with an error.
    pub fn failed(&self, kind: &str) {
        self.errors.with_label_values(&[kind]).inc();
    }

    /// An object could not be read.
    pub fn undecodable(&self, kind: &str) {
        self.undecodable.with_label_values(&[kind]).inc();
    }
}

/// The metrics of the health server. Clones share their values.
#[derive(Debug, Clone)]
pub struct HealthMetrics {
    healthz: IntCounterVec,
    livez: IntCounterVec,
}

impl HealthMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let up = Names::upstream(registry);
        Ok(Self {
            healthz: up.counters(
                "proxy_healthz_total",
                "Answers of /healthz by status",
                &["code"],
            )?,
            livez: up.counters(
                "proxy_livez_total",
                "Answers of /livez by status",
                &["code"],
            )?,
        })
    }

    /// `/healthz` was answered with this status.
    pub fn healthz(&self, code: &str) {
        self.healthz.with_label_values(&[code]).inc();
    }

    /// `/livez` was answered with this status.
    pub fn livez(&self, code: &str) {
        self.livez.with_label_values(&[code]).inc();
    }
}
