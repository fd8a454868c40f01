//! Health check node ports that Services ask for: their changes by a sync, and their page, whose
//! bytes are an interface to load balancers.
//!
//! # Source
//!
//! Upstream: pkg/proxy/servicechangetracker.go, `HealthCheckNodePorts`;
//! pkg/proxy/healthcheck/service_health.go, `hcHandler` (v1.37)

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use http::StatusCode;
use http::header::HeaderValue;
use serde_json::Value;

use super::Health;
use crate::clock;
use crate::model::{ServiceName, ServiceState, Services};
use crate::net::Port;
use crate::select::local_ready;
use crate::telemetry::{Reply, reply};

/// Health check node port of a Service, with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Check {
    /// `spec.healthCheckNodePort`.
    pub port: Port,
    /// Ready endpoints on this node.
    pub endpoints: usize,
}

impl Check {
    /// Returns the check of a Service; `None` if it has none.
    pub(crate) fn of(state: &ServiceState) -> Option<Self> {
        let port = state.health_check()?;
        let endpoints = local_ready(state);
        Some(Self { port, endpoints })
    }
}

/// Addresses that answer the health checks of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CheckAddresses {
    /// Every address of the family.
    All,
    /// These addresses of the node, in any order.
    Only(Vec<IpAddr>),
}

/// Changes of the checks of one family by a successful sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckChanges {
    pub addresses: CheckAddresses,
    /// Checks that are new or changed; `None`: deleted.
    pub changed: Vec<(ServiceName, Option<Check>)>,
}

impl CheckChanges {
    /// Compares the Services that a sync applied with their state before.
    pub(crate) fn new(
        addresses: CheckAddresses,
        before: &[(ServiceName, ServiceState)],
        now: &impl Services,
    ) -> Self {
        let changed = before.iter().filter_map(|(name, before)| {
            let check = now.get(name).and_then(Check::of);
            (check != Check::of(before)).then(|| (name.clone(), check))
        });
        Self {
            addresses,
            changed: changed.collect(),
        }
    }
}

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

    pub(super) fn set_endpoints(&self, endpoints: usize) {
        self.endpoints.store(endpoints, Ordering::Relaxed);
    }

    pub(super) fn answer(&self) -> Reply {
        self.answer_at(clock::instant())
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
#[path = "tests/check.rs"]
mod tests;

#[cfg(test)]
#[path = "tests/check_page.rs"]
mod page_tests;
