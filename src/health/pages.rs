//! Pages `/healthz` and `/livez`.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/healthcheck/proxy_health.go`, `healthzHandler` (v1.37)

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{Request, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::telemetry::{
    HealthMetrics, ManifestMetrics, Reply, UnknownSettings, WatchAges, not_found, reply,
};

use super::{FrontendConflicts, HealthReport, HealthState, ServiceSummary};
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
        match probe {
            Probe::Healthz => self.metrics.healthz(status.as_str()),
            Probe::Livez => self.metrics.livez(status.as_str()),
        }
        let body = body(probe, healthy, &report, SystemTime::now());
        let body = with_stale_kinds(body, &self.watches.ages());
        let body = with_unusable_manifests(body, &self.manifests);
        let body = with_unknown_settings(body, &self.unknown_settings);
        let body = with(body, !stalled.is_empty(), "stalledThreads", &json!(stalled));
        reply(status, "application/json", body)
    }
}

/// Returns JSON on one line, with upstream's order of keys.
fn body(probe: Probe, healthy: bool, report: &HealthReport, now: SystemTime) -> String {
    let families = report.families.clone().into_pairs();
    let newest = families
        .iter()
        .filter_map(|(_, family)| family.as_ref()?.last_updated)
        .max();
    let last_updated = time(if healthy { Some(now) } else { newest });
    let current = time(Some(now));
    let mut text = format!(r#"{{"lastUpdated":"{last_updated}","currentTime":"{current}","#);
    if probe == Probe::Healthz {
        push(
            &mut text,
            format_args!(r#""nodeEligible":{},"#, report.node_eligible),
        );
    }
    push(&mut text, format_args!(r#""healthy":{}"#, report.healthy));
    let mut lead = r#","status":{"#;
    for (family, report) in families {
        let Some(report) = report else { continue };
        let updated = time(report.last_updated);
        let healthy = report.healthy;
        push(
            &mut text,
            format_args!(r#"{lead}"{family}":{{"lastUpdated":"{updated}","healthy":{healthy}"#),
        );
        let found = &report.findings;
        let tables: Vec<&str> = found.unreadable.into_iter().flatten().collect();
        if !tables.is_empty() {
            push(
                &mut text,
                format_args!(r#","unreadableTables":{}"#, json!(tables)),
            );
        }
        push_services(&mut text, "quarantinedServices", &found.quarantined);
        push_conflicts(&mut text, &found.conflicts);
        push_services(
            &mut text,
            "healthCheckPortsOverLimit",
            &found.checks_over_limit,
        );
        text.push('}');
        lead = ",";
    }
    // The lead has changed exactly if `status` was opened.
    text.push_str(if lead == "," { "}}" } else { "}" });
    text
}

/// Adds a key with Services; nothing without any.
fn push_services(text: &mut String, key: &str, services: &ServiceSummary) {
    if services.count > 0 {
        let names: Vec<&str> = services.names.iter().map(ServiceName::as_str).collect();
        let value = json!({"count": services.count, "names": names});
        push(text, format_args!(r#","{key}":{value}"#));
    }
}

/// Adds a key with the frontends that several Services ask for; nothing without any.
fn push_conflicts(text: &mut String, conflicts: &FrontendConflicts) {
    if conflicts.count == 0 {
        return;
    }
    let lost = conflicts.lost.iter().map(|lost| {
        let (service, port, owner) = (&lost.service, &lost.port, &lost.owner);
        // Names that rules may hold need no escape.
        let (ip, kind) = (json!(lost.frontend.ip()), lost.kind());
        let (number, protocol) = (lost.frontend.port().get(), lost.frontend.protocol());
        format!(
            r#"{{"service":"{service}","portName":"{port}","kind":"{kind}","ip":{ip},"port":{number},"protocol":"{protocol}","owner":"{owner}"}}"#
        )
    });
    let (count, lost) = (conflicts.count, lost.collect::<Vec<_>>().join(","));
    push(
        text,
        format_args!(r#","frontendConflicts":{{"count":{count},"lost":[{lost}]}}"#),
    );
}

/// Adds the kinds of objects that are stale, with their ages in seconds; nothing without any, as
/// upstream. The status does not depend on them: the rules in the kernel still work, and neither a
/// restart nor another node would help.
fn with_stale_kinds(body: String, ages: &[(&'static str, Duration)]) -> String {
    let stale = ages.iter().filter(|(_, age)| *age >= STALE);
    let stale: BTreeMap<_, _> = stale.map(|(kind, age)| (*kind, age.as_secs())).collect();
    with(body, !stale.is_empty(), "staleSeconds", &json!(stale))
}

/// Adds the number of manifests that cannot be used; nothing without any, as upstream. The status
/// does not depend on them: all other rules are up to date.
fn with_unusable_manifests(body: String, manifests: &ManifestMetrics) -> String {
    let (files, objects) = (manifests.unusable_files(), manifests.skipped_objects());
    let value = json!({"files": files, "objects": objects});
    with(body, files > 0 || objects > 0, "unusableManifests", &value)
}

/// Adds the number of settings that are unknown, and the paths of the first of them; nothing
/// without any, as upstream. The status does not depend on them: all other settings have an effect.
fn with_unknown_settings(body: String, unknown: &UnknownSettings) -> String {
    /// Paths that fit on a screen.
    const MOST_NAMES: usize = 10;

    let mut paths = unknown.paths();
    let count = paths.len();
    paths.truncate(MOST_NAMES);
    let value = json!({"count": count, "names": paths});
    with(body, count > 0, "unknownSettings", &value)
}

/// Adds a key to a JSON object if the condition holds.
fn with(mut body: String, is_shown: bool, key: &str, value: &Value) -> String {
    if is_shown {
        // The brace that ends the object.
        body.pop();
        push(&mut body, format_args!(r#","{key}":{value}}}"#));
    }
    body
}

fn push(text: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(part);
}

/// Returns a time as RFC 3339 with as many decimals as needed.
fn time(at: Option<SystemTime>) -> String {
    at.and_then(|at| Timestamp::try_from(at).ok())
        .map_or_else(|| NEVER.to_owned(), |at| at.to_string())
}

#[cfg(test)]
#[path = "tests/pages.rs"]
mod tests;
