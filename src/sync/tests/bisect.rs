//! Groups of the bisection, for known failing Services.

use super::*;

fn names(count: usize) -> Vec<ServiceName> {
    let name = |number: usize| ServiceName::new("ns", &format!("{number:05}"));
    (0..count).map(name).collect()
}

/// Searches among `count` Services. Groups with a culprit fail, and name it if `is_named`. Gives
/// the culprits found, the unresolved, the restores and the verdict.
fn search(count: usize, culprits: &[usize], is_named: bool) -> (Vec<usize>, usize, usize, bool) {
    search_with(NodeEvidence::HasNone, count, culprits, is_named)
}

/// As [`search`], with this evidence.
fn search_with(
    evidence: NodeEvidence,
    count: usize,
    culprits: &[usize],
    is_named: bool,
) -> (Vec<usize>, usize, usize, bool) {
    let number = |name: &ServiceName| name.name().parse::<usize>().unwrap();
    let mut bisection = Bisection::new(names(count), evidence);
    let (mut found, mut restores) = (Vec::new(), 0);
    while let Some(group) = bisection.next() {
        restores += 1;
        let poisoned = group.iter().find(|name| culprits.contains(&number(name)));
        match poisoned.cloned() {
            None => bisection.succeeded(),
            Some(poisoned) => {
                let named = is_named.then_some(poisoned);
                found.extend(bisection.failed(group, named).map(|name| number(&name)));
            }
        }
    }
    found.sort_unstable();
    let is_node_fault = bisection.is_node_fault();
    (found, bisection.unresolved().len(), restores, is_node_fault)
}

#[test]
fn one_failing_service_is_found_in_two_restores_for_each_halving() {
    for (count, most) in [(1, 1), (2, 3), (100, 15), (1000, 21), (50_000, 33)] {
        for culprit in [0, count / 2, count - 1] {
            let (found, unresolved, restores, is_node_fault) = search(count, &[culprit], false);
            assert_eq!((found, unresolved), (vec![culprit], 0), "{count}");
            assert!(restores <= most, "{restores} restores of {count} Services");
            assert!(!is_node_fault);
        }
    }
}

#[test]
fn named_failing_services_cost_one_restore_each() {
    let (found, unresolved, restores, _) = search(1000, &[3, 500, 501, 999], true);
    assert_eq!((found, unresolved), (vec![3, 500, 501, 999], 0));
    assert_eq!(restores, 5);
}

#[test]
fn several_failing_services_are_found_and_the_rest_is_left_to_the_next_sync() {
    let (found, unresolved, restores, is_node_fault) = search(64, &[7, 40], false);
    assert_eq!((found, unresolved, is_node_fault), (vec![7, 40], 0, false));
    assert!(restores <= 26, "{restores}");
    let many: Vec<_> = (0..1000).step_by(10).collect();
    let (found, unresolved, restores, is_node_fault) = search(1000, &many, false);
    assert!(!found.is_empty() && unresolved > 0 && !is_node_fault);
    assert!(restores <= 200, "{restores}");
    let (found, unresolved, ..) = search(1000, &many, true);
    assert_eq!(found.len(), MOST_FAILING);
    assert!(unresolved > 0);
}

#[test]
fn a_failure_for_every_service_is_the_fault_of_the_node() {
    for (count, most) in [(3, 6), (1000, 13), (20_000, 19)] {
        let all: Vec<_> = (0..count).collect();
        let (_, _, restores, is_node_fault) = search(count, &all, false);
        assert!(is_node_fault, "{count}");
        assert!(restores <= most, "{restores} restores of {count} Services");
        let (_, _, restores, is_node_fault) = search(count, &all, true);
        assert!(is_node_fault && restores <= MOST_FAILING, "{restores}");
    }
}

#[test]
fn named_failures_are_no_fault_of_a_node_that_has_rules_of_services() {
    let works = NodeEvidence::HasServiceRules;
    let all: Vec<_> = (0..7).collect();
    let (found, unresolved, _, is_node_fault) = search_with(works, 7, &all, true);
    assert_eq!((found, unresolved, is_node_fault), (all.clone(), 0, false));
    // More than one search finds: the next sync finds more.
    let many: Vec<_> = (0..1000).step_by(10).collect();
    let (found, unresolved, _, is_node_fault) = search_with(works, 1000, &many, true);
    assert_eq!((found.len(), is_node_fault), (MOST_FAILING, false));
    assert_eq!(unresolved, 1000 - MOST_FAILING);
    // Without a rejected line it may be the size of any payload, or the memory of the node.
    let (_, _, _, is_node_fault) = search_with(works, 7, &all, false);
    assert!(is_node_fault);
}

#[test]
fn a_search_without_services_ends_at_once() {
    assert_eq!(search(0, &[], false), (vec![], 0, 0, false));
}
