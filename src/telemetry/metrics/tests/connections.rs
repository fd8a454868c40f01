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

/// Totals after some readings of IPv4, by service port.
fn totals(readings: &[&[(&str, u64, u64)]]) -> Vec<(String, u64)> {
    let mut state = ConnectionTotals::default();
    let mut totals = std::collections::BTreeMap::<String, u64>::new();
    for counters in readings {
        let reading = reading(counters);
        for (port, more) in state.update(IpFamily::V4, &reading, 10).increases {
            *totals.entry(port.to_owned()).or_default() += more;
        }
    }
    totals.into_iter().collect()
}

#[test]
fn the_first_reading_counts_from_zero() {
    assert_eq!(
        totals(&[&[("a/web", 1, 30), ("a/web", 2, 5)]]),
        [("a/web".to_owned(), 35)]
    );
}

#[test]
fn a_rule_that_is_written_again_adds_to_the_total() {
    let rewritten = totals(&[&[("a/web", 1, 30)], &[("a/web", 1, 4)], &[("a/web", 1, 6)]]);
    assert_eq!(rewritten, [("a/web".to_owned(), 36)]);
}

#[test]
fn a_rule_that_moves_to_another_chain_adds_to_the_total() {
    let moved = totals(&[&[("a/web", 1, 30)], &[("a/web", 2, 4)]]);
    assert_eq!(moved, [("a/web".to_owned(), 34)]);
}

#[test]
fn a_port_without_rules_keeps_its_total() {
    let without = totals(&[&[("a/web", 1, 30)], &[], &[("a/web", 1, 2)]]);
    assert_eq!(without, [("a/web".to_owned(), 32)]);
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
