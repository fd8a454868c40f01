//! Groups of the bisection, for known failing Services.

use super::*;

fn names(count: usize) -> Vec<ServiceName> {
    let name = |number: usize| ServiceName::new("ns", &format!("{number:05}"));
    (0..count).map(name).collect()
}

/// End of a bisection.
#[derive(Debug)]
struct Found {
    failing: Vec<ServiceName>,
    unresolved: usize,
    restores: usize,
    needs_proof: bool,
    is_node_fault: bool,
}

/// Restores groups until the bisection ends. Groups with a failing Service fail, and name the first
/// of these if `is_named`.
fn search(
    bisection: &mut Bisection,
    fails: impl Fn(&ServiceName) -> bool,
    is_named: bool,
) -> Found {
    let (mut failing, mut restores) = (Vec::new(), 0);
    while let Some(group) = bisection.next() {
        restores += 1;
        match group.iter().find(|name| fails(name)).cloned() {
            None => bisection.succeeded(),
            Some(first) => {
                let named = is_named.then_some(&first);
                failing.extend(bisection.failed(group, named));
            }
        }
    }
    failing.sort_unstable();
    Found {
        failing,
        unresolved: bisection.unresolved().count(),
        restores,
        needs_proof: bisection.needs_proof(),
        is_node_fault: bisection.is_node_fault(),
    }
}

/// Searches among `count` Services of one namespace, of which these numbers fail.
fn search_in(count: usize, failing: &[usize], is_named: bool) -> Found {
    let all = names(count);
    let failing: Vec<_> = failing
        .iter()
        .filter_map(|number| all.get(*number))
        .collect();
    let mut bisection = Bisection::new(all.clone());
    search(&mut bisection, |name| failing.contains(&name), is_named)
}

#[test]
fn one_failing_service_is_found_in_two_restores_for_each_halving() {
    for (count, most) in [(1, 1), (2, 3), (100, 15), (1000, 21), (50_000, 33)] {
        for failing in [0, count / 2, count - 1] {
            let mut bisection = Bisection::new(names(count));
            bisection.succeeded();
            let fails = names(count)[failing].clone();
            let found = search(&mut bisection, |name| *name == fails, false);
            assert_eq!(found.failing, [fails]);
            assert_eq!((found.unresolved, found.is_node_fault), (0, false));
            assert!(found.restores <= most, "{found:?} of {count}");
        }
    }
}

#[test]
fn named_failing_services_cost_about_a_restore_each() {
    let found = search_in(1000, &[3, 500, 501, 999], true);
    assert_eq!((found.failing.len(), found.unresolved), (4, 0));
    assert!(found.restores <= 7, "{found:?}");
}

/// No restore succeeds, so the search ends early and asks whether the node is at fault.
#[test]
fn a_failure_for_every_service_may_be_the_fault_of_the_node() {
    for (count, most) in [(3, 12), (1000, 28), (20_000, 38)] {
        let all: Vec<_> = (0..count).collect();
        for is_named in [false, true] {
            let found = search_in(count, &all, is_named);
            assert!(found.is_node_fault && found.needs_proof, "{found:?}");
            assert!(found.restores <= most, "{found:?} of {count}");
        }
    }
}

/// Another restore has shown that the node is able to.
#[test]
fn each_failing_service_is_found_on_a_node_that_is_not_at_fault() {
    for (every, is_named, most) in [
        (1, false, 400),
        (1, true, 201),
        (10, false, 190),
        (10, true, 21),
    ] {
        let mut bisection = Bisection::new(names(200));
        bisection.succeeded();
        let failing: Vec<_> = names(200).into_iter().step_by(every).collect();
        let found = search(&mut bisection, |name| failing.contains(name), is_named);
        assert_eq!((&found.failing, found.unresolved), (&failing, 0));
        assert!(found.restores <= most, "{found:?}");
        assert!(!found.is_node_fault && !found.needs_proof);
    }
}

/// Its Services are many and small, so that they would come first by their number of rules.
#[test]
fn services_of_other_namespaces_are_restored_before_those_of_a_failing_one() {
    for is_named in [false, true] {
        let tenant = (0..200).map(|number| ServiceName::new("tenant", &format!("{number:03}")));
        let others = (0..50).map(|number| ServiceName::new(&format!("z{number}"), "web"));
        let mut bisection = Bisection::new(tenant.chain(others).collect());
        let is_other = |name: &ServiceName| name.namespace() != "tenant";
        let mut restores = 0;
        while bisection.unresolved().any(is_other) {
            let group = bisection.next().unwrap();
            restores += 1;
            match group.iter().find(|name| !is_other(name)).cloned() {
                None => bisection.succeeded(),
                Some(first) => {
                    bisection.failed(group, is_named.then_some(&first));
                }
            }
        }
        assert!(restores <= 3, "{restores}");
    }
}

/// On a kernel without rules of Services, too many failures count as a fault of the node.
#[test]
fn a_restore_succeeds_soon_although_services_of_all_namespaces_fail() {
    let all = (0..1000).map(|number| {
        ServiceName::new(
            &format!("n{:02}", number % 40),
            &format!("{:02}", number / 40),
        )
    });
    let mut bisection = Bisection::new(all.collect());
    let found = search(&mut bisection, |name| name.name() == "07", false);
    assert_eq!(
        (found.failing.len(), found.unresolved),
        (40, 0),
        "{found:?}"
    );
    assert!(!found.needs_proof);
}
