//! Pages `/healthz` and `/livez`.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/healthcheck/proxy_health.go`, `healthzHandler` (v1.37)

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;
use http::request::Parts;
use jiff::Timestamp;
use serde_json::Value;

use crate::telemetry::{
    HealthMetrics, ManifestMetrics, Reply, UnknownSettings, WatchAges, not_found, reply,
};

use super::{FrontendConflicts, HealthReport, HealthState, ServiceSummary, UnreadableTables};
use crate::model::LostFrontend;

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
    pub(super) fn answer_while(&self, stalled: &[&str], request: &Parts) -> Reply {
        let probe = match request.uri.path() {
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
        let body = with_stalled_threads(body, stalled);
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
        let unreadable = unreadable(report.unreadable);
        let quarantined = services("quarantinedServices", &report.quarantined);
        let conflicts = conflicts(&report.conflicts);
        let checks = services("healthCheckPortsOverLimit", &report.checks_over_limit);
        push(
            &mut text,
            format_args!(
                r#"{lead}"{family}":{{"lastUpdated":"{updated}","healthy":{healthy}{unreadable}{quarantined}{conflicts}{checks}}}"#
            ),
        );
        lead = ",";
    }
    // The lead has changed exactly if `status` was opened.
    text.push_str(if lead == "," { "}}" } else { "}" });
    text
}

/// Returns a key with the tables that could not be read; empty without any, as upstream.
fn unreadable(tables: UnreadableTables) -> String {
    let names = tables.into_iter().flatten();
    let names: Vec<String> = names.map(|table| format!("\"{table}\"")).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(r#","unreadableTables":[{}]"#, names.join(","))
}

/// Returns this key with Services; empty without any.
fn services(key: &str, services: &ServiceSummary) -> String {
    if services.count == 0 {
        return String::new();
    }
    // Names of Services need no escape.
    let names = services.names.iter().map(|name| format!("\"{name}\""));
    let (count, names) = (services.count, names.collect::<Vec<_>>().join(","));
    format!(r#","{key}":{{"count":{count},"names":[{names}]}}"#)
}

/// Returns a key with the frontends that several Services ask for; empty without any.
fn conflicts(conflicts: &FrontendConflicts) -> String {
    if conflicts.count == 0 {
        return String::new();
    }
    let lost = conflicts.lost.iter().map(|lost| {
        let LostFrontend {
            service,
            port,
            frontend,
            owner,
            rank: _,
        } = lost;
        // Names that rules may hold need no escape.
        let ip = frontend.ip().map_or_else(|| "null".to_owned(), |ip| format!("\"{ip}\""));
        let (number, protocol) = (frontend.port().get(), frontend.protocol());
        let kind = lost.kind();
        format!(
            r#"{{"service":"{service}","portName":"{port}","kind":"{kind}","ip":{ip},"port":{number},"protocol":"{protocol}","owner":"{owner}"}}"#
        )
    });
    let (count, lost) = (conflicts.count, lost.collect::<Vec<_>>().join(","));
    format!(r#","frontendConflicts":{{"count":{count},"lost":[{lost}]}}"#)
}

/// Adds the kinds of objects that are stale, with their ages in seconds; nothing without any, as
/// upstream. The status does not depend on them: the rules in the kernel still work, and neither a
/// restart nor another node would help.
fn with_stale_kinds(mut body: String, ages: &[(&'static str, Duration)]) -> String {
    let stale = ages.iter().filter(|(_, age)| *age >= STALE);
    let stale: Vec<String> = stale
        .map(|(kind, age)| format!("\"{kind}\":{}", age.as_secs()))
        .collect();
    if !stale.is_empty() {
        // The brace that ends the object.
        body.pop();
        push(
            &mut body,
            format_args!(r#","staleSeconds":{{{}}}}}"#, stale.join(",")),
        );
    }
    body
}

/// Adds the number of manifests that cannot be used; nothing without any, as upstream. The status
/// does not depend on them: all other rules are up to date.
fn with_unusable_manifests(mut body: String, manifests: &ManifestMetrics) -> String {
    let (files, objects) = (manifests.unusable_files(), manifests.skipped_objects());
    if files > 0 || objects > 0 {
        // The brace that ends the object.
        body.pop();
        push(
            &mut body,
            format_args!(r#","unusableManifests":{{"files":{files},"objects":{objects}}}}}"#),
        );
    }
    body
}

/// Adds the number of settings that are unknown, and the paths of the first of them; nothing
/// without any, as upstream. The status does not depend on them: all other settings have an effect.
fn with_unknown_settings(mut body: String, unknown: &UnknownSettings) -> String {
    /// Paths that fit on a screen.
    const MOST_NAMES: usize = 10;

    let gates = unknown.feature_gates.iter();
    let gates = gates.map(|name| format!("featureGates.{name}"));
    let paths: Vec<String> = gates.chain(unknown.fields.iter().cloned()).collect();
    if let Some(names) = paths
        .get(..paths.len().min(MOST_NAMES))
        .filter(|names| !names.is_empty())
    {
        // The brace that ends the object.
        body.pop();
        let names: Vec<String> = names
            .iter()
            .map(|name| Value::from(name.as_str()).to_string())
            .collect();
        let (count, names) = (paths.len(), names.join(","));
        push(
            &mut body,
            format_args!(r#","unknownSettings":{{"count":{count},"names":[{names}]}}}}"#),
        );
    }
    body
}

/// Adds the names of threads that have stalled; nothing without any, as upstream.
fn with_stalled_threads(mut body: String, stalled: &[&str]) -> String {
    if !stalled.is_empty() {
        // The brace that ends the object.
        body.pop();
        let names: Vec<String> = stalled.iter().map(|name| format!("\"{name}\"")).collect();
        push(
            &mut body,
            format_args!(r#","stalledThreads":[{}]}}"#, names.join(",")),
        );
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
