//! Which Services load balancers ask about on a port of their own, and what they are told.
//!
//! Apart, and pure, so that what a sync changed about it can be tested without sockets.
//!
//! # Source
//!
//! Upstream: pkg/proxy/servicechangetracker.go, `HealthCheckNodePorts` (v1.36)

use std::net::IpAddr;

use crate::model::{ServiceName, ServiceState, Services};
use crate::net::Port;
use crate::select::local_ready;

/// A Service's health-check node port, as it should be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// `spec.healthCheckNodePort`.
    pub port: Port,
    /// Ready endpoints on this node.
    pub endpoints: usize,
}

impl Check {
    /// `None`: nobody asks about this Service.
    pub fn of(state: &ServiceState) -> Option<Self> {
        let port = state.health_check()?;
        let endpoints = local_ready(state);
        Some(Self { port, endpoints })
    }
}

/// Where the checks of one family are answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answering {
    /// On every address of the family.
    Everywhere,
    /// On these addresses of this machine, in any order.
    On(Vec<IpAddr>),
}

/// What a successful sync of one family means for its checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckChanges {
    /// Where all of them are answered from now on.
    pub answering: Answering,
    /// The checks that are new, other than before, or `None`: gone.
    pub changed: Vec<(ServiceName, Option<Check>)>,
}

impl CheckChanges {
    /// Compares the Services that were settled with what they are `now`.
    pub fn new(
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
