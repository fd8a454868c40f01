//! Bisects Services to find those that make restores fail.
//!
//! A group whose restore fails is halved until single Services remain: first between namespaces,
//! so that the Services of one cannot delay other Services, then within each. If the failure names
//! a rejected line, its Service is known without halving. Groups of namespaces with few failures
//! are restored first, of these the largest. If none of these succeeds, the smallest follow: they
//! are most likely to.
//!
//! A Service that fails alone before any restore succeeds is tried again after one did: the node
//! may have been the cause, for example for lack of memory.

use std::collections::BTreeMap;

use crate::model::ServiceName;

/// Number of restores allowed while none has succeeded, in addition to two for each halving from
/// all Services to a single one: a node that can restore nothing ends the search.
const MORE_RESTORES: u32 = 8;

/// Number of Services that fail alone after which the search asks whether the node is at fault,
/// while no restore has succeeded.
const NODE_FAULT_FAILURES: usize = 3;

/// Number of named Services after which the rest of a group is halved as well, while no restore has
/// succeeded: otherwise each restore would contain all that are left.
const NAMED_BEFORE_HALVING: usize = 3;

/// State of one bisection. Groups are never empty.
#[derive(Debug, Clone, Default)]
pub(super) struct Bisection {
    /// Groups that are neither applied nor found to fail, each sorted by namespace.
    groups: Vec<Vec<ServiceName>>,
    /// Number of failed restores of groups within a namespace, or that named one of its Services.
    failures: BTreeMap<Box<str>, u32>,
    /// Number of restores allowed while none has succeeded, and how many of them are left.
    restores_allowed: u32,
    restores_left: u32,
    /// Number of Services found to fail by their rejected lines.
    named: usize,
    /// Services that failed as a group of one, without a rejected line, while no restore had
    /// succeeded.
    unproven: Vec<ServiceName>,
    /// A restore of some rules of Services has succeeded: the node is able to.
    has_succeeded: bool,
}

impl Bisection {
    /// Starts a bisection with all of `names` in one group. They are sorted, those with the most
    /// rules last.
    pub(super) fn new(mut names: Vec<ServiceName>) -> Self {
        // Keeps the order within each namespace.
        names.sort_by(|one, other| one.namespace().cmp(other.namespace()));
        let halvings = names.len().checked_ilog2().map_or(0, |log| log + 1);
        let restores_allowed = 2 * halvings + MORE_RESTORES;
        let mut bisection = Self {
            restores_allowed,
            restores_left: restores_allowed,
            ..Self::default()
        };
        bisection.add(names);
        bisection
    }

    /// Returns the group to restore next; `None` if none is left, or if it has to be known first
    /// whether the node is at fault.
    pub(super) fn next(&mut self) -> Option<Vec<ServiceName>> {
        if !self.has_succeeded
            && (self.restores_left == 0 || self.unproven.len() >= NODE_FAULT_FAILURES)
        {
            return None;
        }
        let first = (0..self.groups.len()).min_by_key(|index| self.rank(*index))?;
        self.restores_left = self.restores_left.saturating_sub(1);
        Some(self.groups.swap_remove(first))
    }

    /// Notes that a restore of rules of Services succeeded.
    pub(super) fn succeeded(&mut self) {
        self.has_succeeded = true;
        let again = std::mem::take(&mut self.unproven);
        self.groups.extend(again.into_iter().map(|name| vec![name]));
    }

    /// Notes that the group failed; `named` is the Service of the rejected line, if the failure
    /// names one. Returns the Service that is now known to be the cause, if there is one.
    pub(super) fn failed(
        &mut self,
        mut group: Vec<ServiceName>,
        named: Option<&ServiceName>,
    ) -> Option<ServiceName> {
        let at = named.and_then(|named| group.iter().position(|name| name == named));
        let named = at.and_then(|at| group.get(at)).map(ServiceName::namespace);
        if let Some(namespace) = named.or_else(|| only_namespace(&group)) {
            *self.failures.entry(namespace.into()).or_default() += 1;
        }
        if at.is_none() && group.len() > 1 {
            self.halve(group);
            return None;
        }
        let Some(at) = at else {
            if self.has_succeeded {
                return group.pop();
            }
            self.unproven.extend(group);
            return None;
        };
        self.named += 1;
        let failing = group.remove(at);
        let is_of_it = |name: &ServiceName| name.namespace() == failing.namespace();
        let (same, others): (Vec<_>, Vec<_>) = group.into_iter().partition(is_of_it);
        if self.has_succeeded || self.named < NAMED_BEFORE_HALVING {
            self.add(same);
            self.add(others);
        } else {
            self.halve(same);
            self.halve(others);
        }
        Some(failing)
    }

    /// Reports whether a Service may count as the cause only after a restore of other rules
    /// succeeded: some failed or are left, and no restore has succeeded.
    pub(super) fn needs_proof(&self) -> bool {
        !self.has_succeeded && (self.named > 0 || !self.is_empty())
    }

    /// Reports whether the node counts as the cause if the kernel has no rules of Services: no
    /// restore succeeded, and several Services failed in any way, or some are left. A kernel that
    /// lacks a module may reject a line of each.
    pub(super) fn is_node_fault(&self) -> bool {
        let failing = self.named + self.unproven.len();
        self.needs_proof() && (failing >= NODE_FAULT_FAILURES || !self.groups.is_empty())
    }

    /// Reports whether a restore has succeeded.
    pub(super) const fn has_succeeded(&self) -> bool {
        self.has_succeeded
    }

    /// Reports whether no Service is left.
    pub(super) const fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.unproven.is_empty()
    }

    /// Returns the Services that were neither applied nor found to fail.
    pub(super) fn unresolved(&self) -> impl Iterator<Item = &ServiceName> {
        self.groups.iter().flatten().chain(&self.unproven)
    }

    /// Adds a group: a new one, or one from [`Bisection::next`] that was not restored.
    pub(super) fn add(&mut self, group: Vec<ServiceName>) {
        if !group.is_empty() {
            self.groups.push(group);
        }
    }

    /// Removes the Services that are not to be kept.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&ServiceName) -> bool) {
        for group in &mut self.groups {
            group.retain(&is_kept);
        }
        self.groups.retain(|group| !group.is_empty());
        self.unproven.retain(&is_kept);
    }

    /// Adds the groups of an earlier search.
    pub(super) fn append(&mut self, earlier: Self) {
        self.groups.extend(earlier.groups);
        for (namespace, failures) in earlier.failures {
            *self.failures.entry(namespace).or_default() += failures;
        }
    }

    /// Returns the order in which a group is restored: the lowest comes first.
    fn rank(&self, index: usize) -> (u32, usize) {
        let group = self.groups.get(index).map_or(&[][..], Vec::as_slice);
        if !self.has_succeeded && self.restores_left < self.restores_allowed / 2 {
            return (0, group.len());
        }
        let failures = only_namespace(group).and_then(|namespace| self.failures.get(namespace));
        (
            failures.copied().unwrap_or_default(),
            usize::MAX - group.len(),
        )
    }

    /// Splits a group in two of about the same size; one of several namespaces between two of them.
    fn halve(&mut self, mut group: Vec<ServiceName>) {
        let middle = group.len() / 2;
        let is_border = |at: &usize| {
            let pair = at.checked_sub(1).and_then(|before| group.get(before..=*at));
            pair.is_some_and(|pair| only_namespace(pair).is_none())
        };
        let border = (1..group.len())
            .filter(is_border)
            .min_by_key(|at| at.abs_diff(middle));
        let heavier = group.split_off(border.unwrap_or(middle));
        self.add(heavier);
        self.add(group);
    }
}

/// Returns the namespace of a group, if all of its Services have the same.
fn only_namespace(group: &[ServiceName]) -> Option<&str> {
    let (first, last) = (group.first()?.namespace(), group.last()?.namespace());
    (first == last).then_some(first)
}

#[cfg(test)]
#[path = "tests/bisect.rs"]
mod tests;
