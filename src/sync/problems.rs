//! Services that lack some or all of their rules, because of limits or frontend conflicts.
//!
//! Each problem is reported once while it lasts.

use std::collections::HashMap;

use crate::model::{Allowance, Frontend, ServiceName, ServiceState, Services};
use crate::render::count_ports_over_limit;
use crate::select::MAX_SLICES;
use crate::tracker::Tracker;

/// Reason that a Service lacks rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServiceProblem {
    /// The Service has too many endpoints.
    Endpoints {
        /// Number of ports without rules for endpoints.
        ports: usize,
    },
    /// The Service has too many EndpointSlices.
    Slices {
        /// Number of slices beyond the limit, which are ignored.
        ignored: usize,
    },
    /// The Services of the namespace have too many endpoints, and this one is among the largest:
    /// its endpoints get no traffic.
    NamespaceEndpoints {
        /// Limit of the namespace.
        limit: usize,
    },
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
        /// Number of lost frontends.
        count: usize,
    },
}

/// Kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProblemKind {
    /// Endpoints of a Service.
    Endpoints,
    /// EndpointSlices of a Service.
    Slices,
    /// Endpoints of a namespace.
    NamespaceEndpoints,
    /// Rules of a namespace, not counting those for endpoints.
    NamespaceRules,
    /// Frontends of other Services.
    Frontends,
}

/// Limits that Services can exceed, with the values of the metric label.
const LIMITS: [(ProblemKind, &str); 4] = [
    (ProblemKind::Endpoints, "endpoints"),
    (ProblemKind::Slices, "slices"),
    (ProblemKind::NamespaceEndpoints, "namespace_endpoints"),
    (ProblemKind::NamespaceRules, "namespace_rules"),
];

impl ServiceProblem {
    const fn kind(&self) -> ProblemKind {
        match self {
            Self::Endpoints { .. } => ProblemKind::Endpoints,
            Self::Slices { .. } => ProblemKind::Slices,
            Self::NamespaceEndpoints { .. } => ProblemKind::NamespaceEndpoints,
            Self::NamespaceRules { .. } => ProblemKind::NamespaceRules,
            Self::Frontends { .. } => ProblemKind::Frontends,
        }
    }
}

/// Number of problems up to which each one is logged. After these, problem number 128, 256, 512 and
/// so on is logged: one Service that changes all the time, or thousands with the same address, must
/// not fill the log.
const MOST_LOGGED: usize = 100;

/// Known problems of all Services.
#[derive(Debug, Default)]
pub(super) struct ServiceProblems {
    known: HashMap<ServiceName, Vec<ProblemKind>>,
    /// Number of Services over each of the [`LIMITS`].
    over: [usize; LIMITS.len()],
    /// Number of problems found so far.
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
            let kinds: Vec<_> = problems.iter().map(ServiceProblem::kind).collect();
            for ((limit, _), count) in LIMITS.iter().zip(&mut self.over) {
                *count += usize::from(kinds.contains(limit));
            }
            let known = if kinds.is_empty() {
                self.known.remove(name)
            } else {
                self.known.insert(name.clone(), kinds)
            };
            let known = known.unwrap_or_default();
            for ((limit, _), count) in LIMITS.iter().zip(&mut self.over) {
                *count -= usize::from(known.contains(limit));
            }
            let new = problems
                .into_iter()
                .filter(|problem| !known.contains(&problem.kind()));
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
        LIMITS.map(|(_, label)| label).into_iter().zip(self.over)
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
mod tests {
    use super::*;
    use crate::model::{Change, NamespaceLimits, Service, ServicePort, Slice, SliceName};
    use crate::net::{Port, Protocol};
    use crate::tracker::Tracker;

    fn slice(n: usize, is_there: bool) -> Change {
        let slice = Slice {
            service: ServiceName::new("shop", "cart"),
            ports: Box::default(),
            endpoints: Box::default(),
        };
        let name = SliceName::new("shop", &format!("cart-{n:06}"));
        Change::Slice(name, is_there.then(|| Box::new(slice)), None)
    }

    #[test]
    fn a_problem_is_reported_once_while_it_lasts() {
        let mut tracker = Tracker::new(std::time::UNIX_EPOCH);
        let mut problems = ServiceProblems::default();
        let mut after = |changes: &mut dyn Iterator<Item = Change>| {
            changes.for_each(|change| tracker.apply(change));
            let applied = tracker.mark_applied();
            let found = problems.update(&applied.before, &tracker).into_iter();
            found.map(|(_, problem)| problem).collect::<Vec<_>>()
        };
        assert_eq!(after(&mut (0..MAX_SLICES).map(|n| slice(n, true))), []);
        let (one, more) = (MAX_SLICES, MAX_SLICES + 1);
        let over = [ServiceProblem::Slices { ignored: 1 }];
        assert_eq!(after(&mut [slice(one, true)].into_iter()), over);
        assert_eq!(after(&mut [slice(more, true)].into_iter()), []);
        let fewer = [slice(one, false), slice(more, false)];
        assert_eq!(after(&mut fewer.into_iter()), []);
        assert_eq!(after(&mut [slice(one, true)].into_iter()), over);
        let over = problems.over_limits().map(|(_, services)| services);
        assert_eq!(over.collect::<Vec<_>>(), [0, 1, 0, 0]);
    }

    #[test]
    fn services_over_the_limits_of_a_namespace_are_reported_and_counted() {
        let limits = NamespaceLimits {
            endpoints: 100,
            rules_without_endpoints: 3,
        };
        let mut tracker = Tracker::new(std::time::UNIX_EPOCH).with_limits(limits);
        let mut problems = ServiceProblems::default();
        let service = |name: &str, ports: u16| {
            let ports = (1..=ports).map(|number| ServicePort {
                name: number.to_string().into(),
                protocol: Protocol::Tcp,
                port: Port::new(number).unwrap(),
                node_port: None,
            });
            let service = Service::plain([10, 96, 0, name.as_bytes()[0]].into(), ports.collect());
            Change::Service(ServiceName::new("shop", name), Some(Box::new(service)))
        };
        let mut after = |change: Change| {
            tracker.apply(change);
            let applied = tracker.mark_applied();
            let found = problems.update(&applied.before, &tracker);
            let over = problems.over_limits().map(|(_, services)| services);
            (found, over.collect::<Vec<_>>())
        };
        assert_eq!(after(service("cart", 2)), (vec![], vec![0; 4]));
        let web = ServiceName::new("shop", "web");
        let found = vec![(web, ServiceProblem::NamespaceRules { limit: 3 })];
        assert_eq!(after(service("web", 2)), (found, vec![0, 0, 0, 1]));
        assert_eq!(after(service("cart", 3)), (vec![], vec![0, 0, 0, 1]));
        assert_eq!(after(service("cart", 1)), (vec![], vec![0; 4]));
    }

    #[test]
    fn a_problem_that_comes_and_goes_does_not_fill_the_log() {
        let mut tracker = Tracker::new(std::time::UNIX_EPOCH);
        let mut problems = ServiceProblems::default();
        let mut logged = 0;
        (0..MAX_SLICES).for_each(|n| tracker.apply(slice(n, true)));
        for _ in 0..1000 {
            for is_there in [true, false] {
                tracker.apply(slice(MAX_SLICES, is_there));
                let applied = tracker.mark_applied();
                logged += problems.update(&applied.before, &tracker).len();
            }
        }
        // The 128th, the 256th and the 512th, besides the first ones.
        assert_eq!(logged, MOST_LOGGED + 3);
    }
}
