//! Healthy or not, from what was asked for and what was done.
//!
//! Apart from the server because it is a function of its history and the time it is told.
//!
//! # Invariants
//!
//! - A family is unhealthy exactly if something it was asked for has been undone for twice the
//!   sync period. Idle for ever is healthy; a family that never started does not count.
//! - A success settles what was asked for before the sync began, and nothing later.
//!
//! # Source
//!
//! Upstream: `pkg/proxy/healthcheck/proxy_health.go` (v1.36)
//!
//! Differs from upstream: there a success also settles what came after the sync had begun, and
//! syncs that fail without anything having been queued, the first one above all, stay healthy for
//! ever.

use std::time::{Duration, Instant, SystemTime};

use crate::model::{LostFrontend, ServiceName};
use crate::net::{IpFamily, PerFamily};

/// Names of the tables that could not be read: of `filter`, `nat` and `mangle`, in this order.
pub type UnreadableTables = [Option<&'static str>; 3];

/// Names of Services in quarantine that are shown. Beyond that the number has to do.
const MOST_NAMES: usize = 10;

/// Services whose changes are not applied because they make restores fail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuarantinedServices {
    /// How many there are.
    pub count: usize,
    /// The first ten of them, sorted.
    pub names: Vec<ServiceName>,
}

impl QuarantinedServices {
    /// These, which are sorted.
    pub fn new(names: &[ServiceName]) -> Self {
        Self {
            count: names.len(),
            names: names.iter().take(MOST_NAMES).cloned().collect(),
        }
    }
}

/// Frontends that several Services ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrontendConflicts {
    /// How many there are.
    pub count: usize,
    /// The first ten claims that were lost, sorted by frontend.
    pub lost: Vec<LostFrontend>,
}

impl FrontendConflicts {
    /// So many, with the first ones of the claims that were lost.
    pub fn new(count: usize, lost: impl Iterator<Item = LostFrontend>) -> Self {
        Self {
            count,
            lost: lost.take(MOST_NAMES).collect(),
        }
    }
}

/// What is known of this node's Node object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeState {
    /// Not seen, or gone. Load balancers should look elsewhere.
    #[default]
    Unknown,
    /// Being deleted, or tainted by the cluster autoscaler. Connections should move away.
    Leaving,
    /// There to stay.
    Eligible,
}

/// One family's history, as far as it matters.
#[derive(Debug, Clone, Default)]
struct History {
    started: bool,
    /// For display.
    last_updated: Option<SystemTime>,
    /// The oldest request that no sync has taken up.
    waiting: Option<Instant>,
    /// The oldest request that the running sync has taken up.
    in_flight: Option<Instant>,
    /// The tables that the last check of the rules could not read.
    unreadable: UnreadableTables,
    /// The Services that make restores fail.
    quarantined: QuarantinedServices,
    /// The frontends that several Services ask for.
    conflicts: FrontendConflicts,
}

impl History {
    fn asked(&self) -> Option<Instant> {
        // A request in flight was made before any that waits.
        self.in_flight.or(self.waiting)
    }
}

/// The health of the process, fed by the syncers and the Node watch.
#[derive(Debug, Clone)]
pub struct HealthState {
    patience: Duration,
    families: PerFamily<History>,
    node: NodeState,
}

/// What can be said at one moment. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Whether every started family is healthy.
    pub healthy: bool,
    /// Whether the node is known and stays.
    pub node_eligible: bool,
    /// `None` for a family that never started.
    pub families: PerFamily<Option<FamilyReport>>,
}

/// What can be said of one family. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyReport {
    /// The last success; `None` before the first.
    pub last_updated: Option<SystemTime>,
    /// Whether its rules are up to date.
    pub healthy: bool,
    /// The tables that the last check of the rules could not read.
    pub unreadable: UnreadableTables,
    /// The Services that make restores fail.
    pub quarantined: QuarantinedServices,
    /// The frontends that several Services ask for.
    pub conflicts: FrontendConflicts,
}

impl HealthState {
    /// Before anything is known: healthy, the node unknown.
    pub fn new(sync_period: Duration) -> Self {
        Self {
            patience: sync_period.saturating_mul(2),
            families: PerFamily::default(),
            node: NodeState::Unknown,
        }
    }

    /// The family's input is complete, so that its first sync is due from now on.
    pub fn started(&mut self, family: IpFamily, now: Instant) {
        self.queued(family, now);
    }

    /// The last check of the rules could not read these tables. That is shown and changes nothing
    /// else: a restart cannot cure it, and syncs that fail for the same cause are unhealthy anyway.
    pub fn unreadable(&mut self, family: IpFamily, tables: UnreadableTables) {
        self.families.get_mut(family).unreadable = tables;
    }

    /// These Services make restores fail. All others are up to date, so that the family is healthy.
    pub fn quarantined(&mut self, family: IpFamily, services: QuarantinedServices) {
        self.families.get_mut(family).quarantined = services;
    }

    /// Several Services ask for these frontends. Changes nothing else: each has the rules of one.
    pub fn conflicts(&mut self, family: IpFamily, conflicts: FrontendConflicts) {
        self.families.get_mut(family).conflicts = conflicts;
    }

    /// What was asked of the family counts for nothing: its programs are only found now, or this
    /// machine does without it.
    pub fn forget(&mut self, family: IpFamily) {
        *self.families.get_mut(family) = History::default();
    }

    /// A sync was asked for.
    pub fn queued(&mut self, family: IpFamily, now: Instant) {
        let history = self.families.get_mut(family);
        history.started = true;
        history.waiting.get_or_insert(now);
    }

    /// A sync has taken its input; what is asked for from now on is for the next one.
    pub fn began(&mut self, family: IpFamily) {
        let history = self.families.get_mut(family);
        history.started = true;
        // After a sync that ended unreported its requests are still open.
        history.in_flight = history.asked();
        history.waiting = None;
    }

    /// The sync that began last has reached the kernel.
    pub fn succeeded(&mut self, family: IpFamily, at: SystemTime) {
        let history = self.families.get_mut(family);
        history.started = true;
        history.in_flight = None;
        history.last_updated = Some(at);
    }

    /// The sync that began last has not. What it was to do is asked for again, and if it was done
    /// unasked, it is asked for from now on.
    pub fn failed(&mut self, family: IpFamily, now: Instant) {
        let history = self.families.get_mut(family);
        history.started = true;
        history.waiting = history.asked().or(Some(now));
        history.in_flight = None;
    }

    /// What the Node object says.
    pub fn node(&mut self, node: NodeState) {
        self.node = node;
    }

    /// The state of things.
    pub fn report(&self, now: Instant) -> Report {
        let families = PerFamily::from_fn(|family| self.family(family, now));
        let is_healthy = |family| {
            let report: Option<&FamilyReport> = families.get(family).as_ref();
            report.is_none_or(|report| report.healthy)
        };
        let healthy = IpFamily::ALL.into_iter().all(is_healthy);
        Report {
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
            healthy: !history.asked().is_some_and(late),
            unreadable: history.unreadable,
            quarantined: history.quarantined.clone(),
            conflicts: history.conflicts.clone(),
        })
    }
}

#[cfg(test)]
#[path = "tests/state.rs"]
mod tests;
