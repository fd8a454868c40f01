//! Tests of `problems`.

use super::*;
use crate::model::{Change, NamespaceLimits, Service, ServicePort, Slice, SliceName};
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
        let ports = (1..=ports).map(|number| ServicePort::tcp(&number.to_string(), number));
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
