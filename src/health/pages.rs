//! Pages `/healthz` and `/livez`.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/healthcheck/proxy_health.go`, `healthzHandler` (v1.37)

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{Request, StatusCode};
use jiff::Timestamp;
use serde::Serialize;

use super::state::{FamilyReport, HealthReport, HealthState};
use crate::clock;
use crate::net::Locked;
use crate::telemetry::{HealthMetrics, Reply, not_found, reply};

/// Zero time, as Go prints it.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Health of the process, shared between reporters and pages.
#[derive(Debug, Clone)]
pub(crate) struct Health(Arc<Locked<HealthState>>);

impl Health {
    pub(crate) fn new(sync_period: Duration) -> Self {
        Self(Arc::new(Locked::new(HealthState::new(sync_period))))
    }

    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut HealthState) -> T) -> T {
        change(&mut self.0.lock())
    }

    pub(crate) fn report(&self, now: Instant) -> HealthReport {
        self.update(|state| state.report(now))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// Readiness for traffic: rules and Node.
    Healthz,
    /// Liveness of the process: rules only.
    Livez,
}

#[derive(Debug, Clone)]
pub(crate) struct HealthPages {
    pub health: Health,
    pub metrics: HealthMetrics,
}

impl HealthPages {
    /// Returns the answer to a request while these threads have stalled: 503 if there are any,
    /// whatever was reported last. Paths are exact, and all methods have the same answer.
    ///
    /// Differs from upstream: Go redirects `//healthz` and decodes `/%68ealthz`, which no known
    /// probe requests.
    pub(super) fn answer_while(&self, stalled: &[&str], request: &Request<Bytes>) -> Reply {
        let probe = match request.uri().path() {
            "/healthz" => Probe::Healthz,
            "/livez" => Probe::Livez,
            _ => return not_found(),
        };
        let mut report = self.health.report(clock::instant());
        report.healthy &= stalled.is_empty();
        let healthy = report.healthy && (probe == Probe::Livez || report.node_eligible);
        let status = if healthy {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let answers = match probe {
            Probe::Healthz => &self.metrics.healthz,
            Probe::Livez => &self.metrics.livez,
        };
        answers.with_label_values(&[status.as_str()]).inc();
        let body = HealthBody {
            stalled_threads: stalled.to_vec(),
            ..HealthBody::new(probe, healthy, &report, clock::wall())
        };
        reply(status, "application/json", body.to_json())
    }
}

/// Body of both pages, with upstream's order of keys. Upstream does not have the last one. Names no
/// Service, since any client gets it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct HealthBody<'a> {
    last_updated: String,
    current_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_eligible: Option<bool>,
    healthy: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    status: BTreeMap<&'static str, FamilyBody>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stalled_threads: Vec<&'a str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FamilyBody {
    last_updated: String,
    healthy: bool,
}

impl HealthBody<'_> {
    fn new(probe: Probe, healthy: bool, report: &HealthReport, now: SystemTime) -> Self {
        let families = report.families.pairs();
        let families =
            families.filter_map(|(family, report)| Some((family.as_str(), report.as_ref()?)));
        let newest = families
            .clone()
            .filter_map(|(_, family)| family.last_updated)
            .max();
        Self {
            last_updated: time(if healthy { Some(now) } else { newest }),
            current_time: time(Some(now)),
            node_eligible: (probe == Probe::Healthz).then_some(report.node_eligible),
            healthy: report.healthy,
            status: families
                .map(|(name, family)| (name, FamilyBody::new(family)))
                .collect(),
            ..Self::default()
        }
    }

    fn to_json(&self) -> String {
        // Cannot fail: every key is a string.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl FamilyBody {
    fn new(report: &FamilyReport) -> Self {
        Self {
            last_updated: time(report.last_updated),
            healthy: report.healthy,
        }
    }
}

/// Returns a time as RFC 3339 with as many decimals as needed.
fn time(at: Option<SystemTime>) -> String {
    at.and_then(|at| Timestamp::try_from(at).ok())
        .map_or_else(|| NEVER.to_owned(), |at| at.to_string())
}

#[cfg(test)]
#[path = "tests/pages.rs"]
mod tests;
