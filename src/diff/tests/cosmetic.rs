//! What no packet can tell.

use super::{check, told, with};
use crate::diff::compare;
use crate::net::IpFamily;

#[test]
fn comments_and_old_roundings_are_cosmetic() {
    let edits = [
        (
            " -m comment --comment \"shop/web:http -> 10.4.0.1:8080\"",
            "",
        ),
        ("0.50000000000", "0.49999999953"),
    ];
    check(
        &edits,
        "\
only in comments or rounding: shop/web:http/tcp

0 service ports change, 0 added, 0 removed; 1 only in comments; 1 chain
",
    );
    let (left, right) = (with(&[]), with(&edits));
    let review = compare(IpFamily::V4, &left, &right);
    assert!(!review.matters());
    assert!(!review.is_empty());
}

#[test]
fn chains_that_nothing_leads_to_are_cosmetic() {
    let left = with(&[(
        ":KUBE-SVC-WEB - [0:0]",
        ":KUBE-SVC-WEB - [0:0]\n:KUBE-SVC-GONE - [0:0]\n-A KUBE-SVC-GONE -j KUBE-SEP-ONE",
    )]);
    let right = with(&[]);
    assert_eq!(
        told(&left, &right),
        "\
chains that nothing leads to (IPv4)
  nat KUBE-SVC-GONE removed -1

0 service ports change, 0 added, 0 removed; 1 stale chain; 1 chain
"
    );
    assert!(!compare(IpFamily::V4, &left, &right).matters());
}

#[test]
fn the_order_of_service_ports_in_shared_chains_means_nothing() {
    let more = |first: &str, second: &str| {
        let rule = |name: &str| {
            format!(
                "-A KUBE-SERVICES -d 10.96.1.{}/32 -p tcp -m comment --comment \"shop/{name} has no endpoints\" -m tcp --dport 80 -j REJECT\n",
                name.len()
            )
        };
        let at = "-A KUBE-SERVICES -d 10.96.0.9/32";
        with(&[(at, &format!("{}{}{at}", rule(first), rule(second)))])
    };
    let said = told(&more("a", "bc"), &more("bc", "a"));
    assert_eq!(said, "no differences\n");
}
