//! Tests of the comparison of two rule sets, by its printed text.

use crate::rules::{Comparison, RuleSet, Table};

const UNORDERED: Comparison<'_> = Comparison {
    chosen: &|_, chain| chain.starts_with("KUBE-"),
    unordered: &[(Table::Nat, "KUBE-SERVICES")],
};

#[track_caller]
fn check(comparison: &Comparison<'_>, left: &str, right: &str, expected: &str) {
    let set = |lines: &str| RuleSet::parse(&format!("*nat\n{lines}\nCOMMIT\n")).unwrap();
    let difference = comparison.compare(&set(left), &set(right));
    assert_eq!(difference, expected);
}

#[test]
fn differences_name_chains_and_rules() {
    let strict = &Comparison::STRICT;
    check(strict, ":A - [0:0]", ":A - [1:1]", "");
    check(
        strict,
        ":A - [0:0]\n-A A -j DROP",
        ":B - [0:0]\n-A B",
        "nat chain `A` only on the left\n  - -A A -j DROP\nnat chain `B` only on the right\n  + -A B\n",
    );
    check(
        strict,
        ":A - [0:0]\n-A A -j DROP\n-A A -j DROP",
        ":A - [0:0]\n-A A -j DROP\n-A A -j ACCEPT",
        "nat chain `A` differs\n  - -A A -j DROP\n  + -A A -j ACCEPT\n",
    );
    check(
        strict,
        ":OUTPUT DROP [0:0]",
        "",
        "nat chain `OUTPUT` differs in policy\n",
    );
}

#[test]
fn order_is_compared_only_in_chains_that_are_ordered() {
    let chain = |chain: &str, targets: [&str; 2]| {
        let [first, second] = targets;
        format!(":{chain} - [0:0]\n-A {chain} -j {first}\n-A {chain} -j {second}")
    };
    let (one, other) = (["ACCEPT", "DROP"], ["DROP", "ACCEPT"]);
    check(
        &UNORDERED,
        &chain("KUBE-SVC-A", one),
        &chain("KUBE-SVC-A", other),
        "nat chain `KUBE-SVC-A` differs in order\n",
    );
    check(
        &UNORDERED,
        &chain("KUBE-SERVICES", one),
        &chain("KUBE-SERVICES", other),
        "",
    );
    check(&UNORDERED, &chain("X", one), &chain("X", other), "");
}
