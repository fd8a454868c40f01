//! The pages of the metrics port.
//!
//! Apart from [`http`](super::http), which serves any pages.
//!
//! # Source
//!
//! Upstream: `cmd/kube-proxy/app/server.go`, `serveMetrics` (v1.36)

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use prometheus::{Registry, TextEncoder};

use super::http::{Reply, not_found, reply};

const TEXT: &str = "text/plain; charset=utf-8";

/// The text format, as Go's client library announces it.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the metrics port shows. Paths are exact; every method is answered alike, as upstream
/// does.
#[derive(Debug, Clone)]
pub struct MetricsPages {
    /// What `/metrics` gathers.
    pub registry: Registry,
    /// The JSON text of `/configz`; without it the path is not there.
    pub configz: Option<Bytes>,
}

impl MetricsPages {
    /// The answer to a request.
    pub fn answer(&self, request: &Parts) -> Reply {
        match request.uri.path() {
            "/metrics" => self.metrics(),
            "/healthz" | "/healthz/ping" => reply(StatusCode::OK, TEXT, "ok"),
            "/proxyMode" => reply(StatusCode::OK, TEXT, "iptables"),
            "/configz" => match &self.configz {
                Some(config) => reply(StatusCode::OK, "application/json", config.clone()),
                None => not_found(),
            },
            _ => not_found(),
        }
    }

    fn metrics(&self) -> Reply {
        let families = self.registry.gather();
        let mut text = String::with_capacity(64 * 1024);
        if let Err(error) = TextEncoder::new().encode_utf8(&families, &mut text) {
            return reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string());
        }
        let mut reply = reply(StatusCode::OK, EXPOSITION, text);
        let start = families
            .iter()
            .find(|family| family.name() == "process_start_time_seconds")
            .and_then(|family| family.get_metric().first())
            .map(|metric| metric.get_gauge().get_value().floor().to_string());
        if let Some(start) = start.and_then(|start| HeaderValue::from_str(&start).ok()) {
            reply.headers_mut().insert("process-start-time-unix", start);
        }
        reply
    }
}

#[cfg(test)]
#[path = "tests/metrics_server.rs"]
mod tests;
