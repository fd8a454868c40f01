//! Differences that affect no packet.

use super::{check, output, with};
use crate::inspect::diff::compare;
use crate::net::IpFamily;

#[test]
fn comments_and_rounded_probabilities_are_cosmetic() {
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
only comments or rounding differ: shop/web:http/tcp

1 service port differs, none affects packets; 1 chain
",
    );
    let (live, desired) = (with(&[]), with(&edits));
    let review = compare(IpFamily::V4, &live, &desired);
    assert!(!review.matters());
    assert!(!review.is_empty());
}

#[test]
fn stale_chains_are_cosmetic() {
    let live = with(&[(
        ":KUBE-SVC-WEB - [0:0]",
        ":KUBE-SVC-WEB - [0:0]\n:KUBE-SVC-GONE - [0:0]\n-A KUBE-SVC-GONE -j KUBE-SEP-ONE",
    )]);
    let desired = with(&[]);
    assert_eq!(
        output(&live, &desired),
        "\
stale chains (IPv4)
  nat KUBE-SVC-GONE removed -1

no service port differs; 1 stale chain; 1 chain
"
    );
    assert!(!compare(IpFamily::V4, &live, &desired).matters());
}
