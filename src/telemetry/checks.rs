//! `/healthz` of the metrics port, and `/metrics/slis`, which counts how it was answered.
//!
//! Apart from [`health`](crate::health), which is about rules: this one only says that somebody is
//! there to answer.
//!
//! # Source
//!
//! Upstream: `staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go`,
//! `staging/src/k8s.io/component-base/metrics/prometheus/slis/metrics.go` (v1.36)

use http::{Method, StatusCode};
use prometheus::{Gauge, IntCounterVec, IntGaugeVec, Opts, Registry, Result};

use super::http::{Reply, TEXT, reply};
use super::metrics_server::exposition;

/// The one check, and what it is part of.
const PING: &str = "ping";
const HEALTHZ: &str = "healthz";

/// Answers of the one check there is. Clones share their values.
#[derive(Debug, Clone)]
pub(super) struct Checks {
    registry: Registry,
    last: IntGaugeVec,
    total: IntCounterVec,
}

impl Checks {
    /// Not asked yet, by a process that began then: in seconds since 1970.
    pub(super) fn new(started: Option<f64>) -> Result<Self> {
        let last = Opts::new(
            "kubernetes_healthcheck",
            "[STABLE] What a health check said last: 1 is good",
        );
        let total = Opts::new(
            "kubernetes_healthchecks_total",
            "[STABLE] What health checks said",
        );
        let checks = Self {
            registry: Registry::new(),
            last: IntGaugeVec::new(last, &["name", "type"])?,
            total: IntCounterVec::new(total, &["name", "status", "type"])?,
        };
        checks.registry.register(Box::new(checks.last.clone()))?;
        checks.registry.register(Box::new(checks.total.clone()))?;
        if let Some(started) = started {
            let (name, help) = super::process::START;
            let start = Gauge::new(name, help)?;
            start.set(started);
            checks.registry.register(Box::new(start))?;
        }
        Ok(checks)
    }

    /// `/healthz`: good, unless nobody is there to say so. `exclude` leaves checks out, `verbose`
    /// names them.
    pub(super) fn healthz(&self, query: &str) -> Reply {
        let pairs = || {
            query
                .split('&')
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        };
        let excluded = || {
            pairs()
                .filter(|(key, _)| *key == "exclude")
                .map(|(_, name)| name)
        };
        let said = if excluded().any(|name| name == PING) {
            format!("[+]{PING} excluded: ok\n")
        } else {
            self.last.with_label_values(&[PING, HEALTHZ]).set(1);
            let labels = [PING, "success", HEALTHZ];
            self.total.with_label_values(&labels).inc();
            format!("[+]{PING} ok\n")
        };
        if !pairs().any(|(key, _)| key == "verbose") {
            return reply(StatusCode::OK, TEXT, "ok");
        }
        let mut unknown: Vec<_> = excluded()
            .filter(|name| *name != PING)
            .map(|name| format!("{name:?}"))
            .collect();
        unknown.sort();
        unknown.dedup();
        let warning = if unknown.is_empty() {
            String::new()
        } else {
            let list = unknown.join(",");
            format!("warn: some health checks cannot be excluded: no matches for {list}\n")
        };
        let text = format!("{said}{warning}{HEALTHZ} check passed\n");
        reply(StatusCode::OK, TEXT, text)
    }

    /// `/metrics/slis`; DELETE forgets what was counted.
    pub(super) fn slis(&self, method: &Method) -> Reply {
        if method == Method::DELETE {
            self.last.reset();
            self.total.reset();
            return reply(StatusCode::OK, TEXT, "metrics reset\n");
        }
        exposition(&self.registry.gather())
    }
}
