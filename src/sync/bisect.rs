//! Decides which Services are restored together next, in search of those that make restores fail.
//!
//! A group that fails is halved until single Services remain. The number of restores is bounded, so
//! that the search ends even if very many Services fail.

use crate::model::ServiceName;

/// Services that one search may blame. More of them are left to the next sync.
const MOST_CULPRITS: usize = 16;

/// Restores beyond the two for each halving that one culprit takes. Each culprit found allows as
/// many more as there are halvings.
const MORE_RESTORES: u32 = 8;

/// Single Services that fail, before any group succeeded, that show the environment to be the
/// cause.
const FAILURES_OF_ENVIRONMENT: usize = 3;

/// A search among some Services.
#[derive(Debug)]
pub(super) struct Bisection {
    /// Services whose fate is open, the group to try next at the end.
    groups: Vec<Vec<ServiceName>>,
    restores_left: u32,
    halvings: u32,
    culprits: usize,
    /// Single Services that failed without a line that names them.
    alone: usize,
    /// A group was applied.
    has_succeeded: bool,
}

impl Bisection {
    /// Begins with all of them in one group. Those with the most rules come last, so that others
    /// are applied first.
    pub(super) fn new(names: Vec<ServiceName>) -> Self {
        let halvings = names.len().checked_ilog2().map_or(0, |log| log + 1);
        Self {
            groups: vec![names],
            restores_left: 2 * halvings + MORE_RESTORES,
            halvings,
            culprits: 0,
            alone: 0,
            has_succeeded: false,
        }
    }

    /// The group to restore next; `None` at the end of the search.
    pub(super) fn next(&mut self) -> Option<Vec<ServiceName>> {
        let is_hopeless = !self.has_succeeded && self.alone >= FAILURES_OF_ENVIRONMENT;
        if self.restores_left == 0 || self.culprits == MOST_CULPRITS || is_hopeless {
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

    /// The group failed, perhaps at a line of the Service `named`. Returns the culprit, if it is
    /// found.
    pub(super) fn failed(
        &mut self,
        mut group: Vec<ServiceName>,
        named: Option<ServiceName>,
    ) -> Option<ServiceName> {
        let at = named.and_then(|named| group.iter().position(|name| *name == named));
        if let Some(at) = at {
            let culprit = group.remove(at);
            // The number of culprits bounds these.
            self.restores_left += 1;
            self.culprits += 1;
            self.groups.push(group);
            return Some(culprit);
        }
        if group.len() <= 1 {
            self.culprits += 1;
            self.alone += 1;
            self.restores_left += self.halvings;
            return group.pop();
        }
        let heavier = group.split_off(group.len() / 2);
        self.groups.push(heavier);
        self.groups.push(group);
        None
    }

    /// Reports whether restores failed alike for whatever Services, so that none is to blame.
    pub(super) fn is_environment(&self) -> bool {
        let is_open = self.groups.iter().any(|group| !group.is_empty());
        !self.has_succeeded && (self.culprits >= FAILURES_OF_ENVIRONMENT || is_open)
    }

    /// The Services that were neither applied nor blamed.
    pub(super) fn unresolved(self) -> Vec<ServiceName> {
        self.groups.into_iter().flatten().collect()
    }

    /// A group from [`Bisection::next`] that was not tried.
    pub(super) fn put_back(&mut self, group: Vec<ServiceName>) {
        self.groups.push(group);
    }
}

#[cfg(test)]
#[path = "tests/bisect.rs"]
mod tests;
