//! Services that do not get all the rules that they ask for, each logged once while that lasts.

use std::collections::BTreeSet;

use crate::model::{ServiceName, ServiceState, Services};
use crate::render::ports_over_limit;
use crate::select::MOST_SLICES;

/// A reason for which a Service lacks rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Problem {
    /// Ports have more endpoints than the limit of a Service leaves for them.
    Endpoints,
    /// It has more slices than are used.
    Slices,
}

/// What is logged of a Service: the problem, and the number of ports or slices it is about.
pub(super) type Found = (ServiceName, Problem, usize);

/// The problems that are known, and were logged.
#[derive(Debug, Default)]
pub(super) struct Problems(BTreeSet<(ServiceName, Problem)>);

impl Problems {
    /// Looks at the Services that a sync settled; returns the problems that are new.
    pub(super) fn update(
        &mut self,
        settled: &[(ServiceName, ServiceState)],
        now: &dyn Services,
    ) -> Vec<Found> {
        let mut found = Vec::new();
        for (name, _) in settled {
            for (problem, count) in problems(now.get(name)) {
                let known = (name.clone(), problem);
                if count == 0 {
                    self.0.remove(&known);
                } else if self.0.insert(known) {
                    found.push((name.clone(), problem, count));
                }
            }
        }
        found
    }
}

/// Every problem with the number of ports or slices that a Service has it for.
fn problems(state: Option<&ServiceState>) -> [(Problem, usize); 2] {
    let slices = state.map_or(0, |state| state.slices.len());
    [
        (Problem::Endpoints, state.map_or(0, ports_over_limit)),
        (Problem::Slices, slices.saturating_sub(MOST_SLICES)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Change, Slice, SliceName};
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
            found
                .map(|(_, problem, count)| (problem, count))
                .collect::<Vec<_>>()
        };
        assert_eq!(after(&mut (0..MOST_SLICES).map(|n| slice(n, true))), []);
        let (one, more) = (MOST_SLICES, MOST_SLICES + 1);
        let over = [(Problem::Slices, 1)];
        assert_eq!(after(&mut [slice(one, true)].into_iter()), over);
        assert_eq!(after(&mut [slice(more, true)].into_iter()), []);
        let fewer = [slice(one, false), slice(more, false)];
        assert_eq!(after(&mut fewer.into_iter()), []);
        assert_eq!(after(&mut [slice(one, true)].into_iter()), over);
    }
}
