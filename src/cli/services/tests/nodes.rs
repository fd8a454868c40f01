//! Lines of service ports that nodes disagree on.

use super::*;
use crate::cli::cluster::Agreement;

fn endpoints(last: &[u8]) -> Endpoints {
    let addresses = last.iter().map(|last| ([10, 0, 0, *last], 80).into());
    addresses.collect()
}

#[track_caller]
fn check(nodes: &[(&str, Option<&[u8]>)], expected: &str) {
    let mut agreement = Agreement::default();
    for (node, last) in nodes {
        let own = last.map(|last| ("shop/web".to_owned(), endpoints(last)));
        agreement.add(node, own);
    }
    let disagreements = agreement.disagreements();
    let lines = disagreements.iter().map(|(name, held)| line(name, held));
    assert_eq!(lines.collect::<Vec<_>>().join("\n"), expected);
}

#[test]
fn a_node_without_rules_is_told_from_one_without_endpoints() {
    let three: Option<&[u8]> = Some(&[1, 2, 3]);
    check(
        &[("a", three), ("b", three), ("c", None), ("d", Some(&[]))],
        "shop/web: 2 nodes have 3 endpoints; c has no rules; d has 0",
    );
}

#[test]
fn equally_many_endpoints_are_told_apart_by_address() {
    check(
        &[("a", Some(&[1])), ("b", Some(&[1])), ("c", Some(&[9]))],
        "shop/web: 2 nodes have 1 endpoint; c has 1, with 10.0.0.9:80",
    );
}

#[test]
fn nodes_that_agree_are_no_line() {
    check(&[("a", Some(&[1, 2])), ("b", Some(&[2, 1]))], "");
}

#[test]
fn only_what_is_not_ok_on_all_nodes_is_left() {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let first = not_ok_on_all(None, names(&["a", "b"]));
    assert_eq!(first, names(&["a", "b"]));
    assert_eq!(
        not_ok_on_all(Some(&first), names(&["b", "c"])),
        names(&["b"])
    );
}
