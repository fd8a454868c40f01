//! Health check node ports that Services ask for, and the changes of them by a sync.
//!
//! # Source
//!
//! Upstream: pkg/proxy/servicechangetracker.go, `HealthCheckNodePorts` (v1.36)

use std::net::IpAddr;

use crate::model::{ServiceName, ServiceState, Services};
use crate::net::Port;
use crate::select::local_ready;

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

/// Addresses of the checks of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answering {
    /// Every address of the family.
    Everywhere,
    /// These addresses of the node, in any order.
    On(Vec<IpAddr>),
}

/// Changes of the checks of one family by a successful sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckChanges {
    /// Addresses of all checks.
    pub answering: Answering,
    /// Checks that are new or changed; `None`: deleted.
    pub changed: Vec<(ServiceName, Option<Check>)>,
}

impl CheckChanges {
    /// Compares the Services that a sync applied with their state before.
    pub(crate) fn new(
        answering: Answering,
        before: &[(ServiceName, ServiceState)],
        now: &impl Services,
    ) -> Self {
        let changed = before.iter().filter_map(|(name, before)| {
            let check = now.get(name).and_then(Check::of);
            (check != Check::of(before)).then(|| (name.clone(), check))
        });
        Self {
            answering,
            changed: changed.collect(),
        }
    }
}

#[cfg(test)]
#[path = "tests/check.rs"]
mod tests;
