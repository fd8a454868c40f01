//! What Services amount to besides rules, as sums that follow each change.
//!
//! Apart from [`stats`](super::stats), which is about one payload: these are kept for every
//! Service, so that whoever renders one alone knows the sums of all.

use std::ops::{AddAssign, SubAssign};

use super::plan::{Plan, Reception};

/// Sums over service ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Endpoints in any condition, those of each port apart.
    pub endpoints: usize,
    /// Ports with endpoints, but none here, under internal policy Local: the cluster IP drops.
    pub internal_dropped: usize,
    /// The same under external policy Local, also where no address leads to the port yet.
    pub external_dropped: usize,
}

impl Tally {
    /// One port's share.
    ///
    /// Upstream: pkg/proxy/iptables/proxier.go, `syncProxyRules`,
    /// `serviceNoLocalEndpointsTotalInternal` and `-External` (v1.36)
    pub(super) fn of(plan: &Plan<'_>) -> Self {
        Self {
            endpoints: plan.selection.candidates.len(),
            internal_dropped: usize::from(plan.internal() == Reception::Dropped),
            external_dropped: usize::from(plan.external() == Reception::Dropped),
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.endpoints += other.endpoints;
        self.internal_dropped += other.internal_dropped;
        self.external_dropped += other.external_dropped;
    }
}

/// What was added before is taken away again, so that no sum falls below zero.
impl SubAssign for Tally {
    fn sub_assign(&mut self, other: Self) {
        self.endpoints -= other.endpoints;
        self.internal_dropped -= other.internal_dropped;
        self.external_dropped -= other.external_dropped;
    }
}
