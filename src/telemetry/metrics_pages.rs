//! Pages of the metrics port, with its own `/healthz` and the `/metrics/slis` that count it, and
//! `/flagz` and `/statusz`: the flags of the command line, and version and uptime.
//!
//! Pages below `/debug/` are served with `enableProfiling`.
//!
//! This `/healthz` only shows that the process responds; [`health`](crate::health) is about rules.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/server.go`, `serveMetrics`,
//! `staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go`,
//! `staging/src/k8s.io/apiserver/pkg/server/routes/flags.go`,
//! `staging/src/k8s.io/apiserver/pkg/server/flagz/flagz.go`,
//! `staging/src/k8s.io/apiserver/pkg/server/statusz/statusz.go`,
//! `staging/src/k8s.io/component-base/metrics/prometheus/slis/metrics.go` (v1.37)
//!
//! Differs from upstream: of `/flagz` and `/statusz`, the separator between names and values is
//! fixed, which upstream picks at random; there is no Go version; and there are no objects in JSON
//! and YAML, which are in beta and served only to clients that name kind, group and version.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode};
use jiff::Timestamp;
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry, Result, TextEncoder};

use super::log::LogLevel;
use super::metrics::{KUBE_PROXY_MINOR_VERSION, KUBE_PROXY_VERSION, START, register_start};
use super::server::{Reply, TEXT, not_found, reply};
use crate::clock;

/// Content type of the text format, as Go's client library sends it.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Name of the only check, and of the page that it is part of.
const PING: &str = "ping";
const HEALTHZ: &str = "healthz";

/// Settings of the process that pages show or depend on.
#[derive(Debug, Clone)]
pub(crate) struct PageSettings {
    pub configz: Bytes,
    /// Flags of the command line and their values.
    pub flags: BTreeMap<String, String>,
    /// Log level that the pages below `/debug/` change; `None`: all of them are unknown.
    pub debugging: Option<LogLevel>,
}

/// Pages of the metrics port. Paths are exact; the method is ignored where none is named, as
/// upstream does.
#[derive(Debug, Clone)]
pub(crate) struct MetricsPages {
    registry: Registry,
    settings: PageSettings,
    ping: PingCheck,
}

impl MetricsPages {
    pub(crate) fn new(registry: Registry, settings: PageSettings) -> Result<Self> {
        Ok(Self {
            registry,
            settings,
            ping: PingCheck::new()?,
        })
    }

    pub(crate) fn answer(&self, request: &Request<Bytes>) -> Reply {
        let uri = request.uri();
        match uri.path() {
            "/metrics" => self.metrics(),
            "/metrics/slis" => self.ping.slis(request.method()),
            "/healthz" => self.ping.healthz(uri.query().unwrap_or_default()),
            "/healthz/ping" => reply(StatusCode::OK, TEXT, "ok"),
            "/proxyMode" => reply(StatusCode::OK, TEXT, "iptables"),
            "/configz" => reply(
                StatusCode::OK,
                "application/json",
                self.settings.configz.clone(),
            ),
            "/flagz" => reply(StatusCode::OK, TEXT, flagz(&self.settings.flags)),
            "/statusz" => reply(
                StatusCode::OK,
                TEXT,
                statusz(clock::timestamp(clock::process_start()), clock::now()),
            ),
            path if path.starts_with("/debug/") => {
                debug_page(self.settings.debugging.as_ref(), request)
            }
            _ => not_found(),
        }
    }

    fn metrics(&self) -> Reply {
        let families = self.registry.gather();
        let mut reply = exposition(&families);
        let start = families
            .iter()
            .find(|family| family.name() == START)
            .and_then(|family| family.get_metric().first())
            .map(|metric| metric.get_gauge().get_value().floor().to_string());
        if let Some(start) = start.and_then(|start| HeaderValue::from_str(&start).ok()) {
            reply.headers_mut().insert("process-start-time-unix", start);
        }
        reply
    }
}

/// Results of the check `ping`. Clones share their values.
#[derive(Debug, Clone)]
struct PingCheck {
    registry: Registry,
    last: IntGaugeVec,
    total: IntCounterVec,
}

impl PingCheck {
    fn new() -> Result<Self> {
        let last = Opts::new(
            "kubernetes_healthcheck",
            "[STABLE] Last result of a health check; 1 is success",
        );
        let total = Opts::new(
            "kubernetes_healthchecks_total",
            "[STABLE] Number of health check results by status",
        );
        let check = Self {
            registry: Registry::new(),
            last: IntGaugeVec::new(last, &["name", "type"])?,
            total: IntCounterVec::new(total, &["name", "status", "type"])?,
        };
        check.registry.register(Box::new(check.last.clone()))?;
        check.registry.register(Box::new(check.total.clone()))?;
        register_start(&check.registry)?;
        Ok(check)
    }

    /// Returns `/healthz`, which always succeeds; with `verbose` in the query, it lists its check.
    ///
    /// Differs from upstream: there, `exclude` leaves checks out, although there is only one.
    fn healthz(&self, query: &str) -> Reply {
        self.last.with_label_values(&[PING, HEALTHZ]).set(1);
        let labels = [PING, "success", HEALTHZ];
        self.total.with_label_values(&labels).inc();
        let mut keys = query.split('&').filter_map(|pair| pair.split('=').next());
        if !keys.any(|key| key == "verbose") {
            return reply(StatusCode::OK, TEXT, "ok");
        }
        let text = format!("[+]{PING} ok\n{HEALTHZ} check passed\n");
        reply(StatusCode::OK, TEXT, text)
    }

    /// Returns `/metrics/slis`; DELETE resets its metrics.
    fn slis(&self, method: &Method) -> Reply {
        if method == Method::DELETE {
            self.last.reset();
            self.total.reset();
            return reply(StatusCode::OK, TEXT, "metrics reset\n");
        }
        exposition(&self.registry.gather())
    }
}

fn exposition(families: &[MetricFamily]) -> Reply {
    let mut text = String::with_capacity(64 * 1024);
    match TextEncoder::new().encode_utf8(families, &mut text) {
        Ok(()) => reply(StatusCode::OK, EXPOSITION, text),
        Err(error) => reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
    }
}

fn debug_page(debugging: Option<&LogLevel>, request: &Request<Bytes>) -> Reply {
    let Some(level) = debugging else {
        return not_found();
    };
    match request.uri().path() {
        "/debug/flags/v" => set_verbosity(level, request),
        _ => not_found(),
    }
}

/// Sets the log level that `-v` with this number stands for, until the process ends.
fn set_verbosity(level: &LogLevel, request: &Request<Bytes>) -> Reply {
    let plain = |status, text: String| reply(status, "text/plain", text + "\n");
    if request.method() != Method::PUT {
        let text = "unsupported http method\nhint: use `curl -X PUT -d 4` for -v=4".to_owned();
        return plain(StatusCode::NOT_ACCEPTABLE, text);
    }
    let text = String::from_utf8_lossy(request.body());
    let Ok(number) = text.parse::<i32>() else {
        let text = format!("failed set klog.logging.verbosity {text:?}: not a valid integer");
        return plain(StatusCode::BAD_REQUEST, text);
    };
    // Negative numbers log as 0 does, and no level is above 255.
    let verbosity = u8::try_from(number.max(0)).unwrap_or(u8::MAX);
    if !level.set(verbosity) {
        let text = "the log is closed".to_owned();
        return plain(StatusCode::INTERNAL_SERVER_ERROR, text);
    }
    tracing::info!(verbosity, "log level changed over HTTP");
    let text = format!("successfully set klog.logging.verbosity to {number}");
    plain(StatusCode::OK, text)
}

/// Component that this program stands in for.
const COMPONENT: &str = "kube-proxy";

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no \
                       formatting compatibility guarantees and is for debugging purposes only.";

/// Pages that `/statusz` lists, as upstream does.
const PATHS: &str = "/configz /flagz /healthz /metrics /proxyMode";

/// Returns `/flagz`: the flags of the command line with their values or defaults.
fn flagz(flags: &BTreeMap<String, String>) -> String {
    let mut text = format!("\n{COMPONENT} flagz\n{WARNING}\n");
    for (name, value) in flags {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}:{value}");
    }
    text
}

/// Returns `/statusz`: start time, uptime and versions.
fn statusz(started: Timestamp, now: Timestamp) -> String {
    let up = now.as_second().saturating_sub(started.as_second()).max(0);
    let since = started.strftime("%a %b %e %H:%M:%S UTC %Y");
    let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
    let (program, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    format!(
        "\n{COMPONENT} statusz\n{WARNING}\n\n\
         Started= {since}\n\
         Up= {hours} hr {minutes:02} min {seconds:02} sec\n\
         Go version= none, this is {program} {version}\n\
         Binary version= {KUBE_PROXY_VERSION}\n\
         Emulation version= {KUBE_PROXY_MINOR_VERSION}\n\
         Paths= {PATHS}\n"
    )
}

#[cfg(test)]
#[path = "tests/debug.rs"]
mod debug;

#[cfg(test)]
#[path = "tests/hostile.rs"]
mod hostile;

#[cfg(test)]
#[path = "tests/metrics_pages.rs"]
mod tests;

#[cfg(test)]
#[path = "tests/zpages.rs"]
mod zpages_tests;
