//! Bisects Services to find those that make restores fail.
//!
//! A group that fails is halved until single Services remain. The number of restores is bounded,
//! so the search ends even if very many Services fail.

use crate::model::ServiceName;

/// Maximum number of failing Services found by one search. More are left to the next sync.
const MOST_FAILING: usize = 16;

/// Restores beyond the two for each halving that the search for one failing Service takes. Each
/// one found allows as many more as there are halvings.
const MORE_RESTORES: u32 = 8;

/// Number of single Services that fail before any group succeeded, after which the node counts
/// as the cause.
const FAILURES_OF_NODE: usize = 3;

/// Evidence, before the search, of whether the node can restore rules of Services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeEvidence {
    /// The kernel has chains of Services outside of the search.
    Works,
    /// The kernel has none.
    Unknown,
}

/// State of one search.
#[derive(Debug)]
pub(super) struct Bisection {
    /// Groups not yet resolved; the next one to restore is the last.
    groups: Vec<Vec<ServiceName>>,
    restores_left: u32,
    halvings: u32,
    evidence: NodeEvidence,
    /// Number of Services found to fail.
    failing: usize,
    /// Number of those that failed as a group of one, without a rejected line.
    alone: usize,
    /// A group was applied.
    has_succeeded: bool,
}

impl Bisection {
    /// Starts a search with all Services in one group. Those with the most rules come last, so
    /// that the others are applied first.
    pub(super) fn new(names: Vec<ServiceName>, evidence: NodeEvidence) -> Self {
        let halvings = names.len().checked_ilog2().map_or(0, |log| log + 1);
        Self {
            groups: vec![names],
            restores_left: 2 * halvings + MORE_RESTORES,
            halvings,
            evidence,
            failing: 0,
            alone: 0,
            has_succeeded: false,
        }
    }

    /// Returns the group to restore next; `None` at the end of the search.
    pub(super) fn next(&mut self) -> Option<Vec<ServiceName>> {
        let is_node_fault = !self.has_succeeded && self.alone >= FAILURES_OF_NODE;
        if self.restores_left == 0 || self.failing == MOST_FAILING || is_node_fault {
            return None;
        }
        self.groups.retain(|group| !group.is_empty());
        let group = self.groups.pop()?;
        self.restores_left -= 1;
        Some(group)
    }

    pub(super) const fn succeeded(&mut self) {
        self.has_succeeded = true;
    }

    /// Notes that the group failed, possibly at a line of the Service `named`. Returns the Service
    /// that causes the failure, if this shows it.
    pub(super) fn failed(
        &mut self,
        mut group: Vec<ServiceName>,
        named: Option<ServiceName>,
    ) -> Option<ServiceName> {
        let at = named.and_then(|named| group.iter().position(|name| *name == named));
        if let Some(at) = at {
            let failing = group.remove(at);
            // Does not count: the number of failing Services bounds these restores.
            self.restores_left += 1;
            self.failing += 1;
            self.groups.push(group);
            return Some(failing);
        }
        if group.len() <= 1 {
            self.failing += 1;
            self.alone += 1;
            self.restores_left += self.halvings;
            return group.pop();
        }
        let heavier = group.split_off(group.len() / 2);
        self.groups.push(heavier);
        self.groups.push(group);
        None
    }

    /// Reports whether restores failed for every Service, so that the node counts as the cause.
    ///
    /// Services with a rejected line count as well, since a missing kernel module makes the kernel
    /// reject a line of each. If it has other Services' rules already, they do not: otherwise more
    /// failing Services than one search finds would keep every other change from being applied.
    pub(super) fn is_node_fault(&self) -> bool {
        let is_open = self.groups.iter().any(|group| !group.is_empty());
        let named = self.failing - self.alone;
        !self.has_succeeded
            && match self.evidence {
                NodeEvidence::Works => self.alone >= FAILURES_OF_NODE || (is_open && named == 0),
                NodeEvidence::Unknown => self.failing >= FAILURES_OF_NODE || is_open,
            }
    }

    /// Returns the Services that were neither applied nor found to fail.
    pub(super) fn unresolved(self) -> Vec<ServiceName> {
        self.groups.into_iter().flatten().collect()
    }

    /// Returns a group from [`Bisection::next`] that was not restored.
    pub(super) fn put_back(&mut self, group: Vec<ServiceName>) {
        self.groups.push(group);
    }
}

#[cfg(test)]
#[path = "tests/bisect.rs"]
mod tests;
