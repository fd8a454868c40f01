//! Services that lack some or all of their rules, because of limits or frontend conflicts.
//!
//! Each problem is reported once while it lasts.

use std::collections::HashMap;

use crate::model::{Allowance, Frontend, ServiceName, ServiceState, Services};
use crate::render::count_ports_over_limit;
use crate::select::MAX_SLICES;
use crate::tracker::Tracker;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServiceProblem {
    Endpoints {
        /// Number of ports without rules for endpoints.
        ports: usize,
    },
    Slices {
        /// Number of slices beyond the limit, which are ignored.
        ignored: usize,
    },
    /// The Services of the namespace have too many endpoints, and this one is among the largest:
    /// its endpoints get no traffic.
    NamespaceEndpoints { limit: usize },
    /// The Services of the namespace have too many rules, not counting those for endpoints, and
    /// this one is among the largest: it has no rules.
    NamespaceRules {
        /// Limit of the sum of ports, each times its addresses and source ranges.
        limit: usize,
    },
    /// Frontends of the Service belong to other Services.
    Frontends {
        /// First lost frontend.
        first: Frontend,
        /// Service that has the first lost frontend.
        holder: ServiceName,
        count: usize,
    },
}

/// Labels of the limits that Services can exceed.
const LIMITS: [&str; 4] = [
    "endpoints",
    "slices",
    "namespace_endpoints",
    "namespace_rules",
];

impl ServiceProblem {
    /// Returns the limit, as metrics label it, or `frontends`.
    const fn label(&self) -> &'static str {
        match self {
            Self::Endpoints { .. } => "endpoints",
            Self::Slices { .. } => "slices",
            Self::NamespaceEndpoints { .. } => "namespace_endpoints",
            Self::NamespaceRules { .. } => "namespace_rules",
            Self::Frontends { .. } => "frontends",
        }
    }

    pub(super) const fn is_over_limit(&self) -> bool {
        !matches!(self, Self::Frontends { .. })
    }
}

/// Number of problems up to which each one is logged. After these, problem number 128, 256, 512 and
/// so on is logged: one Service that changes all the time, or thousands with the same address, must
/// not fill the log.
const MOST_LOGGED: usize = 100;

#[derive(Debug, Default)]
pub(super) struct ServiceProblems {
    /// Labels of the problems of each Service.
    known: HashMap<ServiceName, Vec<&'static str>>,
    over: [usize; LIMITS.len()],
    found: usize,
}

impl ServiceProblems {
    /// Updates the problems of the Services that a sync applied, of which `before` has the states
    /// before the sync; only their names are used. Returns the new problems to log.
    pub(super) fn update(
        &mut self,
        before: &[(ServiceName, ServiceState)],
        tracker: &Tracker,
    ) -> Vec<(ServiceName, ServiceProblem)> {
        let mut found = Vec::new();
        for (name, _) in before {
            let state = tracker.get(name).into_iter();
            let problems: Vec<_> = state.flat_map(|state| problems(state, tracker)).collect();
            let labels: Vec<_> = problems.iter().map(ServiceProblem::label).collect();
            for (limit, count) in LIMITS.iter().zip(&mut self.over) {
                *count += usize::from(labels.contains(limit));
            }
            let known = if labels.is_empty() {
                self.known.remove(name)
            } else {
                self.known.insert(name.clone(), labels)
            };
            let known = known.unwrap_or_default();
            for (limit, count) in LIMITS.iter().zip(&mut self.over) {
                *count -= usize::from(known.contains(limit));
            }
            let new = problems
                .into_iter()
                .filter(|problem| !known.contains(&problem.label()));
            for problem in new {
                self.found += 1;
                if self.found <= MOST_LOGGED || self.found.is_power_of_two() {
                    found.push((name.clone(), problem));
                }
            }
        }
        found
    }

    /// Returns the metric label of each limit, and the number of Services over it.
    pub(super) fn over_limits(&self) -> impl Iterator<Item = (&'static str, usize)> {
        LIMITS.into_iter().zip(self.over)
    }
}

fn problems(state: &ServiceState, tracker: &Tracker) -> impl Iterator<Item = ServiceProblem> {
    let ports = Some(count_ports_over_limit(state)).filter(|ports| *ports > 0);
    let slices = state.slices.len().checked_sub(MAX_SLICES + 1);
    let limits = tracker.limits();
    let namespace = match state.allowance {
        Allowance::Full => None,
        Allowance::NoEndpoints => Some(ServiceProblem::NamespaceEndpoints {
            limit: limits.endpoints,
        }),
        Allowance::NoRules => Some(ServiceProblem::NamespaceRules {
            limit: limits.rules_without_endpoints,
        }),
    };
    let frontends = state.lost.first().and_then(|lost| {
        Some(ServiceProblem::Frontends {
            first: lost.frontend,
            holder: tracker.frontend_owner(&lost.frontend)?.clone(),
            count: state.lost.len(),
        })
    });
    let ports = ports.map(|ports| ServiceProblem::Endpoints { ports });
    let slices = slices.map(|more| ServiceProblem::Slices { ignored: more + 1 });
    let limits = ports.into_iter().chain(slices).chain(namespace);
    limits.chain(frontends)
}

#[cfg(test)]
#[path = "tests/problems.rs"]
mod tests;
