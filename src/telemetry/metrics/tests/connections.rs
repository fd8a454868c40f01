//! Sums of counters that are read again and again.

use super::{ConnectionReading, ConnectionTotals};
use crate::net::IpFamily;

fn reading(counters: &[(&str, u64, u64)]) -> ConnectionReading {
    let mut reading = ConnectionReading::default();
    for (port, rule, connections) in counters {
        reading.add(port, *rule, *connections);
    }
    reading
}

/// Checks the total of a port after some readings of IPv4, each of rules and their connections.
#[track_caller]
fn check_total(readings: &[&[(u64, u64)]], expected: u64) {
    let mut state = ConnectionTotals::default();
    let mut total = 0;
    for counters in readings {
        let counters = counters.iter().copied();
        let counters = counters.map(|(rule, count)| ("a/web", rule, count));
        let reading = reading(&counters.collect::<Vec<_>>());
        for (port, more) in state.update(IpFamily::V4, &reading, 10).increases {
            assert_eq!(port, "a/web");
            total += more;
        }
    }
    assert_eq!(total, expected);
}

#[test]
fn a_total_adds_up_all_rules_that_a_port_had() {
    // The first reading counts from zero.
    check_total(&[&[(1, 30), (2, 5)]], 35);
    // A rule that is written again.
    check_total(&[&[(1, 30)], &[(1, 4)], &[(1, 6)]], 36);
    // A rule that moves to another chain.
    check_total(&[&[(1, 30)], &[(2, 4)]], 34);
    // A port without rules keeps its total.
    check_total(&[&[(1, 30)], &[], &[(1, 2)]], 32);
}

#[test]
fn families_are_read_on_their_own() {
    let mut totals = ConnectionTotals::default();
    let v4 = reading(&[("a/web", 1, 30)]);
    let v6 = reading(&[("a/web", 1, 20)]);
    totals.update(IpFamily::V4, &v4, 10);
    let update = totals.update(IpFamily::V6, &v6, 10);
    assert_eq!(update.increases, [("a/web", 20)]);
    let update = totals.update(IpFamily::V4, &v4, 10);
    assert_eq!(update.increases, [("a/web", 0)]);
}

#[test]
fn the_number_of_series_is_limited() {
    let mut totals = ConnectionTotals::default();
    let all = reading(&[("a/one", 1, 1), ("a/three", 2, 1), ("a/two", 3, 1)]);
    let update = totals.update(IpFamily::V4, &all, 2);
    assert_eq!(update.increases, [("a/one", 1), ("a/three", 1)]);
    assert_eq!((update.omitted, update.removed.len()), (1, 0));
    // A port that is gone makes place, and one with rules of the other family does not.
    let other = reading(&[("a/three", 9, 1)]);
    totals.update(IpFamily::V6, &other, 2);
    let less = reading(&[("a/two", 3, 1)]);
    let update = totals.update(IpFamily::V4, &less, 2);
    assert_eq!(update.increases, [("a/two", 1)]);
    assert_eq!(update.removed, ["a/one".into()]);
}

#[test]
fn labels_are_the_parts_of_the_name() {
    assert_eq!(super::labels("a/web:http"), ["a", "web", "http"]);
    assert_eq!(super::labels("a/web"), ["a", "web", ""]);
}
