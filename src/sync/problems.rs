//! Services that do not get all the rules that they ask for, each logged once while that lasts.

use std::collections::HashMap;

use crate::model::{Allowance, Frontend, ServiceName, ServiceState, Services};
use crate::render::ports_over_limit;
use crate::select::MOST_SLICES;
use crate::tracker::Tracker;

/// A reason for which a Service lacks rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// So many ports have more endpoints than the limit of a Service leaves for them.
    Endpoints(usize),
    /// Number of slices beyond those that are used.
    Slices(usize),
    /// The Services of its namespace have more endpoints than this limit; those of the largest get
    /// no traffic.
    NamespaceEndpoints(usize),
    /// The Services of its namespace have more ports, times addresses and source ranges, than this
    /// limit; the largest have no rules.
    NamespaceRules(usize),
    /// Frontends that other service ports have.
    Frontends {
        /// The first of them.
        first: Frontend,
        /// The Service that has it.
        holder: ServiceName,
        /// Number of all of them.
        count: usize,
    },
}

/// A limit that Services can be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// Endpoints of a Service.
    Endpoints,
    /// Slices of a Service.
    Slices,
    /// Endpoints of a namespace.
    NamespaceEndpoints,
    /// Rules without endpoints of a namespace.
    NamespaceRules,
}

impl Limit {
    const ALL: [Self; 4] = [
        Self::Endpoints,
        Self::Slices,
        Self::NamespaceEndpoints,
        Self::NamespaceRules,
    ];

    /// Label of the metric.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoints",
            Self::Slices => "slices",
            Self::NamespaceEndpoints => "namespace_endpoints",
            Self::NamespaceRules => "namespace_rules",
        }
    }
}

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Over(Limit),
    Frontends,
}

impl Problem {
    const fn kind(&self) -> Kind {
        match self {
            Self::Endpoints(_) => Kind::Over(Limit::Endpoints),
            Self::Slices(_) => Kind::Over(Limit::Slices),
            Self::NamespaceEndpoints(_) => Kind::Over(Limit::NamespaceEndpoints),
            Self::NamespaceRules(_) => Kind::Over(Limit::NamespaceRules),
            Self::Frontends { .. } => Kind::Frontends,
        }
    }
}

/// A problem of a Service.
pub(super) type Found = (ServiceName, Problem);

/// Problems logged by name. After these only every doubling is logged: one Service that changes
/// all the time, or thousands that ask for one address, must not fill the log.
const MOST_NAMED: usize = 100;

/// The problems that are known.
#[derive(Debug, Default)]
pub(super) struct Problems {
    known: HashMap<ServiceName, Vec<Kind>>,
    /// Number of Services over each limit, in the order of [`Limit::ALL`].
    over: [usize; Limit::ALL.len()],
    /// Number of problems found so far.
    found: usize,
}

impl Problems {
    /// Looks at the Services that a sync settled; returns the problems that are new
    /// and worth a line in the log.
    pub(super) fn update(
        &mut self,
        settled: &[(ServiceName, ServiceState)],
        tracker: &Tracker,
    ) -> Vec<Found> {
        let mut found = Vec::new();
        for (name, _) in settled {
            let now = tracker.get(name).into_iter();
            let problems: Vec<_> = now.flat_map(|state| problems(state, tracker)).collect();
            let kinds: Vec<_> = problems.iter().map(Problem::kind).collect();
            for (limit, count) in Limit::ALL.into_iter().zip(&mut self.over) {
                *count += usize::from(kinds.contains(&Kind::Over(limit)));
            }
            let known = if kinds.is_empty() {
                self.known.remove(name)
            } else {
                self.known.insert(name.clone(), kinds)
            };
            let known = known.unwrap_or_default();
            for (limit, count) in Limit::ALL.into_iter().zip(&mut self.over) {
                *count -= usize::from(known.contains(&Kind::Over(limit)));
            }
            let new = problems
                .into_iter()
                .filter(|problem| !known.contains(&problem.kind()));
            for problem in new {
                self.found += 1;
                if self.found <= MOST_NAMED || self.found.is_power_of_two() {
                    found.push((name.clone(), problem));
                }
            }
        }
        found
    }

    /// Returns the number of Services over each limit.
    pub(super) fn over_limits(&self) -> impl Iterator<Item = (Limit, usize)> {
        Limit::ALL.into_iter().zip(self.over)
    }
}

fn problems(state: &ServiceState, tracker: &Tracker) -> impl Iterator<Item = Problem> {
    let ports = Some(ports_over_limit(state)).filter(|ports| *ports > 0);
    let slices = state.slices.len().checked_sub(MOST_SLICES + 1);
    let limits = tracker.limits();
    let namespace = match state.allowance {
        Allowance::Full => None,
        Allowance::NoEndpoints => Some(Problem::NamespaceEndpoints(limits.endpoints)),
        Allowance::NoRules => Some(Problem::NamespaceRules(limits.rules_without_endpoints)),
    };
    let frontends = state.lost.first().and_then(|lost| {
        Some(Problem::Frontends {
            first: lost.frontend,
            holder: tracker.frontend_holder(&lost.frontend)?.clone(),
            count: state.lost.len(),
        })
    });
    let ports = ports.map(Problem::Endpoints);
    let slices = slices.map(|more| Problem::Slices(more + 1));
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
        let mut problems = Problems::default();
        let mut after = |changes: &mut dyn Iterator<Item = Change>| {
            changes.for_each(|change| tracker.apply(change));
            let settled = tracker.settle();
            let found = problems.update(&settled.before, &tracker).into_iter();
            found.map(|(_, problem)| problem).collect::<Vec<_>>()
        };
        assert_eq!(after(&mut (0..MOST_SLICES).map(|n| slice(n, true))), []);
        let (one, more) = (MOST_SLICES, MOST_SLICES + 1);
        let over = [Problem::Slices(1)];
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
        let mut problems = Problems::default();
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
            let settled = tracker.settle();
            let found = problems.update(&settled.before, &tracker);
            let over = problems.over_limits().map(|(_, services)| services);
            (found, over.collect::<Vec<_>>())
        };
        assert_eq!(after(service("cart", 2)), (vec![], vec![0; 4]));
        let web = ServiceName::new("shop", "web");
        let found = vec![(web, Problem::NamespaceRules(3))];
        assert_eq!(after(service("web", 2)), (found, vec![0, 0, 0, 1]));
        assert_eq!(after(service("cart", 3)), (vec![], vec![0, 0, 0, 1]));
        assert_eq!(after(service("cart", 1)), (vec![], vec![0; 4]));
    }

    #[test]
    fn a_problem_that_comes_and_goes_does_not_fill_the_log() {
        let mut tracker = Tracker::new(std::time::UNIX_EPOCH);
        let mut problems = Problems::default();
        let mut logged = 0;
        (0..MOST_SLICES).for_each(|n| tracker.apply(slice(n, true)));
        for _ in 0..1000 {
            for is_there in [true, false] {
                tracker.apply(slice(MOST_SLICES, is_there));
                let settled = tracker.settle();
                logged += problems.update(&settled.before, &tracker).len();
            }
        }
        // The 128th, the 256th and the 512th, besides the first ones.
        assert_eq!(logged, MOST_NAMED + 3);
    }
}
