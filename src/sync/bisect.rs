//! Bisects Services to find those that make restores fail.
//!
//! A group whose restore fails is halved until single Services remain. If the failure names a
//! rejected line, its Service is known without halving. The number of restores is bounded, so the
//! search ends even if very many Services fail.

use crate::model::ServiceName;

/// Maximum number of failing Services found by one bisection. More are left to the next sync.
const MOST_FAILING: usize = 16;

/// Number of restores allowed in addition to two for each halving: with `n` halvings to a single
/// Service, a bisection begins with a limit of `2n` plus this many. Each failing Service that it
/// finds without a rejected line adds `n`; the restore that finds one by such a line is free.
const MORE_RESTORES: u32 = 8;

/// Number of failing Services from which on the node counts as the cause, while no group was
/// applied. Services with a rejected line count only if the kernel has no rules of Services.
const NODE_FAULT_FAILURES: usize = 3;

/// Rules of Services in the kernel before the bisection: evidence that the node can restore them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeEvidence {
    /// The kernel has chains of Services.
    HasServiceRules,
    /// The kernel has no chain of a Service: it may be unable to restore any.
    HasNone,
}

/// State of one bisection.
#[derive(Debug)]
pub(super) struct Bisection {
    /// Groups not yet resolved; the next one to restore is the last.
    groups: Vec<Vec<ServiceName>>,
    restores_left: u32,
    /// Upper bound of the number of halvings from all Services to a single one.
    halvings: u32,
    evidence: NodeEvidence,
    /// Number of Services found to fail.
    failing: usize,
    /// Number of those that failed as a group of one, without a rejected line.
    failed_singly: usize,
    /// A group was applied.
    has_succeeded: bool,
}

impl Bisection {
    /// Starts a bisection with all of `names` in one group. They are sorted, those with the most
    /// rules last: the others are applied first.
    pub(super) fn new(names: Vec<ServiceName>, evidence: NodeEvidence) -> Self {
        let halvings = names.len().checked_ilog2().map_or(0, |log| log + 1);
        Self {
            groups: vec![names],
            restores_left: 2 * halvings + MORE_RESTORES,
            halvings,
            evidence,
            failing: 0,
            failed_singly: 0,
            has_succeeded: false,
        }
    }

    /// Returns the group to restore next; `None` at the end of the bisection.
    pub(super) fn next(&mut self) -> Option<Vec<ServiceName>> {
        let all_failed = !self.has_succeeded && self.failed_singly >= NODE_FAULT_FAILURES;
        if self.restores_left == 0 || self.failing == MOST_FAILING || all_failed {
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

    /// Notes that the group failed; `named` is the Service of the rejected line, if the failure
    /// names one. Returns the Service that is now known to be the cause, if there is one.
    pub(super) fn failed(
        &mut self,
        mut group: Vec<ServiceName>,
        named: Option<ServiceName>,
    ) -> Option<ServiceName> {
        let at = named.and_then(|named| group.iter().position(|name| *name == named));
        if let Some(at) = at {
            let failing = group.remove(at);
            // A restore that names a failing Service does not count: [`MOST_FAILING`] bounds the
            // number of these.
            self.restores_left += 1;
            self.failing += 1;
            self.groups.push(group);
            return Some(failing);
        }
        if group.len() <= 1 {
            self.failing += 1;
            self.failed_singly += 1;
            self.restores_left += self.halvings;
            return group.pop();
        }
        let heavier = group.split_off(group.len() / 2);
        self.groups.push(heavier);
        self.groups.push(group);
        None
    }

    /// Reports whether the node counts as the cause: no group was applied, and
    ///
    /// - if the kernel has rules of Services, so that the node can restore some:
    ///   [`NODE_FAULT_FAILURES`] Services failed without a rejected line. A rejected line is the
    ///   fault of its Service. Or groups were left when the restores or the time ran out, unless a
    ///   Service with a rejected line was found: there may be more than [`MOST_FAILING`] of these,
    ///   and they must not block all changes.
    /// - if it has none: that many Services failed in any way, because a kernel that lacks a module
    ///   rejects a line of each Service. Or groups were left.
    pub(super) fn is_node_fault(&self) -> bool {
        let is_unfinished = self.groups.iter().any(|group| !group.is_empty());
        let named = self.failing - self.failed_singly;
        !self.has_succeeded
            && match self.evidence {
                NodeEvidence::HasServiceRules => {
                    self.failed_singly >= NODE_FAULT_FAILURES || (is_unfinished && named == 0)
                }
                NodeEvidence::HasNone => self.failing >= NODE_FAULT_FAILURES || is_unfinished,
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
