//! The pages of the metrics port.
//!
//! Apart from [`http`](super::http), which serves any pages. None of them waits for anything:
//! what they show is there already, or is counted where it is shown.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/server.go`, `serveMetrics` (v1.36)

use std::collections::BTreeMap;
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode};
use jiff::Timestamp;
use prometheus::proto::MetricFamily;
use prometheus::{Registry, TextEncoder};

use super::checks::Checks;
use super::debug::{self, Debugging};
use super::http::{Reply, TEXT, not_found, reply};
use super::process::{START, start_time};
use super::zpages;

/// The text format, as Go's client library announces it.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the process was started with.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The JSON text of `/configz`.
    pub configz: Bytes,
    /// The flags of the command line and their values.
    pub flags: BTreeMap<String, String>,
    /// Whether `/debug/` is there.
    pub debugging: Debugging,
}

/// What the metrics port shows. Paths are exact; every method is answered alike where none is
/// named, as upstream does.
#[derive(Debug, Clone)]
pub struct MetricsPages {
    registry: Registry,
    facts: Facts,
    checks: Checks,
    started: Timestamp,
}

impl MetricsPages {
    /// Pages that show what `registry` gathers.
    ///
    /// # Errors
    ///
    /// Only if two metrics had the same name, which a test excludes.
    pub fn new(registry: Registry, facts: Facts) -> prometheus::Result<Self> {
        let started = start_time();
        Ok(Self {
            registry,
            facts,
            checks: Checks::new(started)?,
            started: started.and_then(timestamp).unwrap_or_else(now),
        })
    }

    /// The answer to a request.
    pub fn answer(&self, request: &Request<Bytes>) -> Reply {
        let (uri, headers) = (request.uri(), request.headers());
        match uri.path() {
            "/metrics" => self.metrics(),
            "/metrics/slis" => self.checks.slis(request.method()),
            "/healthz" => self.checks.healthz(uri.query().unwrap_or_default()),
            "/healthz/ping" => reply(StatusCode::OK, TEXT, "ok"),
            "/proxyMode" => reply(StatusCode::OK, TEXT, "iptables"),
            "/configz" => reply(
                StatusCode::OK,
                "application/json",
                self.facts.configz.clone(),
            ),
            "/flagz" => zpages::flagz(headers, &self.facts.flags),
            "/statusz" => zpages::statusz(headers, self.started, now()),
            path if path.starts_with("/debug/") => debug::answer(&self.facts.debugging, request),
            _ => not_found(),
        }
    }

    fn metrics(&self) -> Reply {
        let families = self.registry.gather();
        let mut reply = exposition(&families);
        let start = families
            .iter()
            .find(|family| family.name() == START.0)
            .and_then(|family| family.get_metric().first())
            .map(|metric| metric.get_gauge().get_value().floor().to_string());
        if let Some(start) = start.and_then(|start| HeaderValue::from_str(&start).ok()) {
            reply.headers_mut().insert("process-start-time-unix", start);
        }
        reply
    }
}

/// A page of metrics.
pub(super) fn exposition(families: &[MetricFamily]) -> Reply {
    let mut text = String::with_capacity(64 * 1024);
    match TextEncoder::new().encode_utf8(families, &mut text) {
        Ok(()) => reply(StatusCode::OK, EXPOSITION, text),
        Err(error) => reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
    }
}

/// To the second, which is all that is shown.
fn timestamp(seconds: f64) -> Option<Timestamp> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what does not fit is no time, either"
    )]
    let seconds = seconds as i64;
    Timestamp::from_second(seconds).ok()
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where a request meets the clock"
)]
fn now() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
#[path = "tests/hostile.rs"]
mod hostile;

#[cfg(test)]
#[path = "tests/metrics_server.rs"]
mod tests;
