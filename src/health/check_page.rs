//! Page of a health check node port: its bytes are an interface to load balancers.
//!
//! # Source
//!
//! Upstream: pkg/proxy/healthcheck/service_health.go, `hcHandler` (v1.36)

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use http::StatusCode;
use http::header::HeaderValue;
use serde_json::Value;

use super::Health;
use crate::model::ServiceName;
use crate::telemetry::{Reply, reply};

/// Header that tells load balancers the weight of this node.
const WEIGHT: &str = "x-load-balancing-endpoint-weight";

/// Content of the page of one Service. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct CheckPage {
    service: ServiceName,
    endpoints: Arc<AtomicUsize>,
    health: Health,
}

impl CheckPage {
    pub(super) fn new(service: ServiceName, health: Health) -> Self {
        Self {
            service,
            endpoints: Arc::default(),
            health,
        }
    }

    /// Sets the number of ready endpoints on this node.
    pub(super) fn set_endpoints(&self, endpoints: usize) {
        self.endpoints.store(endpoints, Ordering::Relaxed);
    }

    /// Returns the answer to any request.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where a request meets the clock"
    )]
    pub(super) fn answer(&self) -> Reply {
        self.answer_at(Instant::now())
    }

    /// Returns the answer. The deletion of this Node does not count: `/healthz` reports it.
    fn answer_at(&self, now: Instant) -> Reply {
        let endpoints = self.endpoints.load(Ordering::Relaxed);
        let healthy = self.health.report(now).healthy;
        let status = if healthy && endpoints > 0 {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let body = body(&self.service, endpoints, healthy);
        let mut reply = reply(status, "application/json", body);
        reply
            .headers_mut()
            .insert(WEIGHT, HeaderValue::from(endpoints));
        reply
    }
}

/// Returns JSON, indented by tabs, without a line break at the end.
fn body(service: &ServiceName, endpoints: usize, healthy: bool) -> String {
    let [namespace, name] = [service.namespace(), service.name()].map(Value::from);
    format!(
        "{{\n\
         \t\"service\": {{\n\
         \t\t\"namespace\": {namespace},\n\
         \t\t\"name\": {name}\n\
         \t}},\n\
         \t\"localEndpoints\": {endpoints},\n\
         \t\"serviceProxyHealthy\": {healthy}\n\
         }}"
    )
}

#[cfg(test)]
#[path = "tests/check_page.rs"]
mod tests;
