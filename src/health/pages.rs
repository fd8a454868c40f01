//! Pages `/healthz` and `/livez`.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/healthcheck/proxy_health.go`, `healthzHandler` (v1.37)

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{Request, StatusCode};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::telemetry::{
    HealthMetrics, ManifestMetrics, Reply, UnknownSettings, WatchAges, not_found, reply,
};

use super::state::{FamilyReport, FrontendConflicts, HealthReport, HealthState, ServiceSummary};
use crate::model::ServiceName;

/// Zero time, as Go prints it.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Time without an event or a bookmark after which a kind of objects is stale: an API server sends
/// a bookmark each minute, so two are missing.
const STALE: Duration = Duration::from_secs(150);

/// Health of the process, shared between reporters and pages.
#[derive(Debug, Clone)]
pub(crate) struct Health(Arc<Mutex<HealthState>>);

impl Health {
    /// Returns a healthy state for this sync period.
    pub(crate) fn new(sync_period: Duration) -> Self {
        Self(Arc::new(Mutex::new(HealthState::new(sync_period))))
    }

    /// Changes the state.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut HealthState) -> T) -> T {
        // A change that panicked leaves a valid state: each field is valid on its own.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the health now.
    pub(crate) fn report(&self, now: Instant) -> HealthReport {
        self.update(|state| state.report(now))
    }
}

/// Kind of probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// Readiness for traffic: rules and Node.
    Healthz,
    /// Liveness of the process: rules only.
    Livez,
}

/// Pages of the health port.
#[derive(Debug, Clone)]
pub(crate) struct HealthPages {
    /// Health of the process.
    pub health: Health,
    /// Metrics that count the answers.
    pub metrics: HealthMetrics,
    /// Age of the last event or bookmark of each kind of object.
    pub watches: WatchAges,
    /// Manifests that cannot be used.
    pub manifests: ManifestMetrics,
    /// Settings that have no effect because this version does not know them.
    pub unknown_settings: UnknownSettings,
}

impl HealthPages {
    /// Returns the answer to a request while these threads have stalled: 503 if there are any,
    /// whatever was reported last. Paths are exact, and all methods have the same answer.
    ///
    /// Differs from upstream: Go redirects `//healthz` and decodes `/%68ealthz`, which no known
    /// probe requests.
    #[expect(
        clippy::disallowed_methods,
        reason = "an answer depends on the time of its request"
    )]
    pub(super) fn answer_while(&self, stalled: &[&str], request: &Request<Bytes>) -> Reply {
        let probe = match request.uri().path() {
            "/healthz" => Probe::Healthz,
            "/livez" => Probe::Livez,
            _ => return not_found(),
        };
        let mut report = self.health.report(Instant::now());
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
            stale_seconds: stale_kinds(&self.watches.ages()),
            unusable_manifests: unusable_manifests(&self.manifests),
            unknown_settings: unknown_settings(&self.unknown_settings),
            stalled_threads: stalled.to_vec(),
            ..HealthBody::new(probe, healthy, &report, SystemTime::now())
        };
        reply(status, "application/json", body.to_json())
    }
}

/// Body of both pages, with upstream's order of keys. Keys that upstream does not have come last,
/// and only if there is something to report. The status depends on none but the last of them: a
/// restart of the process, or another node, would not help.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct HealthBody<'a> {
    last_updated: String,
    current_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_eligible: Option<bool>,
    healthy: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    status: BTreeMap<&'static str, FamilyBody<'a>>,
    /// Ages of the kinds of objects that are stale.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    stale_seconds: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unusable_manifests: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_settings: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stalled_threads: Vec<&'a str>,
}

/// Health of a family. Findings come after upstream's keys.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FamilyBody<'a> {
    last_updated: String,
    healthy: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable_tables: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quarantined_services: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frontend_conflicts: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health_check_ports_over_limit: Option<Value>,
}

impl<'a> HealthBody<'a> {
    fn new(probe: Probe, healthy: bool, report: &'a HealthReport, now: SystemTime) -> Self {
        let families = report.families.as_ref().into_pairs();
        let families = families.into_iter();
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

impl<'a> FamilyBody<'a> {
    fn new(report: &'a FamilyReport) -> Self {
        let found = &report.findings;
        Self {
            last_updated: time(report.last_updated),
            healthy: report.healthy,
            unreadable_tables: found.unreadable.into_iter().flatten().collect(),
            quarantined_services: services(&found.quarantined),
            frontend_conflicts: conflicts(&found.conflicts),
            health_check_ports_over_limit: services(&found.checks_over_limit),
        }
    }
}

fn conflicts(conflicts: &FrontendConflicts) -> Option<Value> {
    let lost = conflicts.lost.iter().map(|lost| {
        json!({
            "service": lost.service.as_str(),
            "portName": lost.port,
            "kind": lost.kind(),
            "ip": lost.frontend.ip(),
            "port": lost.frontend.port().get(),
            "protocol": lost.frontend.protocol().to_string(),
            "owner": lost.owner.as_str(),
        })
    });
    let lost: Vec<Value> = lost.collect();
    (conflicts.count > 0).then(|| json!({"count": conflicts.count, "lost": lost}))
}

fn services(services: &ServiceSummary) -> Option<Value> {
    let names: Vec<&str> = services.names.iter().map(ServiceName::as_str).collect();
    (services.count > 0).then(|| json!({"count": services.count, "names": names}))
}

/// Returns the ages in seconds of the kinds of objects that are stale.
fn stale_kinds(ages: &[(&'static str, Duration)]) -> BTreeMap<&'static str, u64> {
    let stale = ages.iter().filter(|(_, age)| *age >= STALE);
    stale.map(|(kind, age)| (*kind, age.as_secs())).collect()
}

fn unusable_manifests(manifests: &ManifestMetrics) -> Option<Value> {
    let (files, objects) = (
        manifests.unusable_files.get(),
        manifests.skipped_objects.get(),
    );
    (files > 0 || objects > 0).then(|| json!({"files": files, "objects": objects}))
}

/// Returns the number of settings that are unknown, and the paths of the first of them.
fn unknown_settings(unknown: &UnknownSettings) -> Option<Value> {
    /// Paths that fit on a screen.
    const MOST_NAMES: usize = 10;

    let mut paths = unknown.paths();
    let count = paths.len();
    paths.truncate(MOST_NAMES);
    (count > 0).then(|| json!({"count": count, "names": paths}))
}

/// Returns a time as RFC 3339 with as many decimals as needed.
fn time(at: Option<SystemTime>) -> String {
    at.and_then(|at| Timestamp::try_from(at).ok())
        .map_or_else(|| NEVER.to_owned(), |at| at.to_string())
}

#[cfg(test)]
#[path = "tests/pages.rs"]
mod tests;
