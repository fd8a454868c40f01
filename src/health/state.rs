//! Health of the process, as a function of requests, syncs and the time.
//!
//! # Invariants
//!
//! - A family is unhealthy exactly if a request for a sync has not been applied for twice the sync
//!   period. An idle family is healthy; one that never started does not count.
//! - A successful sync completes the requests before its start, and no later ones.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/healthcheck/proxy_health.go` (v1.37)
//!
//! Differs from upstream: in kube-proxy a successful sync completes requests after its start as
//! well, and syncs that fail without a request, such as the first one, never make it unhealthy.

use std::time::{Duration, Instant, SystemTime};

use crate::net::{IpFamily, PerFamily};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum NodeState {
    /// Not seen, or deleted: load balancers should not use this node.
    #[default]
    Unknown,
    /// Being deleted, or tainted by the cluster autoscaler: load balancers should drain it.
    Leaving,
    /// Neither of these.
    Eligible,
}

#[derive(Debug, Clone, Default)]
struct FamilyHealth {
    started: bool,
    /// Time of the last success, for display.
    last_updated: Option<SystemTime>,
    /// Oldest request that no sync has begun with.
    waiting: Option<Instant>,
    /// Oldest request of the sync under way.
    in_flight: Option<Instant>,
}

impl FamilyHealth {
    /// Returns the time of the oldest request that was not applied.
    fn oldest_request(&self) -> Option<Instant> {
        // A request in flight was made before any that waits.
        self.in_flight.or(self.waiting)
    }
}

/// Health of the process, from reports of the syncers and the watch of the Node.
#[derive(Debug, Clone)]
pub(crate) struct HealthState {
    patience: Duration,
    families: PerFamily<FamilyHealth>,
    node: NodeState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HealthReport {
    /// Every started family is healthy.
    pub healthy: bool,
    /// The Node is known and not about to be deleted.
    pub node_eligible: bool,
    /// Health of each family; `None` for one that never started.
    pub families: PerFamily<Option<FamilyReport>>,
}

/// Health of one family at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FamilyReport {
    /// Time of the last success; `None` before the first.
    pub last_updated: Option<SystemTime>,
    /// The rules are up to date.
    pub healthy: bool,
}

impl HealthState {
    /// Returns the state before the first report: healthy, without a Node.
    pub(crate) fn new(sync_period: Duration) -> Self {
        Self {
            patience: sync_period.saturating_mul(2),
            families: PerFamily::default(),
            node: NodeState::Unknown,
        }
    }

    /// Drops the requests of a family whose iptables binaries were found only now, or that is
    /// disabled.
    pub(crate) fn forget(&mut self, family: IpFamily) {
        *self.families.get_mut(family) = FamilyHealth::default();
    }

    pub(crate) fn queued(&mut self, family: IpFamily, now: Instant) {
        let history = self.families.get_mut(family);
        history.started = true;
        history.waiting.get_or_insert(now);
    }

    /// Notes the start of a sync: later requests are for the next one.
    pub(crate) fn began(&mut self, family: IpFamily) {
        let history = self.families.get_mut(family);
        history.started = true;
        // After a sync that ended unreported its requests are still open.
        history.in_flight = history.oldest_request();
        history.waiting = None;
    }

    pub(crate) fn succeeded(&mut self, family: IpFamily, at: SystemTime) {
        let history = self.families.get_mut(family);
        history.started = true;
        history.in_flight = None;
        history.last_updated = Some(at);
    }

    /// Notes that the last sync failed: its requests stay. Without one, it counts as requested
    /// from now on.
    pub(crate) fn failed(&mut self, family: IpFamily, now: Instant) {
        let history = self.families.get_mut(family);
        history.started = true;
        history.waiting = history.oldest_request().or(Some(now));
        history.in_flight = None;
    }

    pub(crate) fn node(&mut self, node: NodeState) {
        self.node = node;
    }

    pub(crate) fn report(&self, now: Instant) -> HealthReport {
        let families = PerFamily::from_fn(|family| self.family(family, now));
        let is_healthy = |family| {
            let report: Option<&FamilyReport> = families.get(family).as_ref();
            report.is_none_or(|report| report.healthy)
        };
        let healthy = IpFamily::ALL.into_iter().all(is_healthy);
        HealthReport {
            healthy,
            node_eligible: self.node == NodeState::Eligible,
            families,
        }
    }

    fn family(&self, family: IpFamily, now: Instant) -> Option<FamilyReport> {
        let history = self.families.get(family);
        let late = |since: Instant| now.saturating_duration_since(since) >= self.patience;
        history.started.then(|| FamilyReport {
            last_updated: history.last_updated,
            healthy: !history.oldest_request().is_some_and(late),
        })
    }
}

#[cfg(test)]
#[path = "tests/state.rs"]
mod tests;
