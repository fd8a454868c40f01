//! Changes of the masqueraded clients, of one Service and of many.

use super::super::{ManifestFacts, compare, json};
use super::{SAVED, check, output, with};
use crate::net::IpFamily;

const OUTSIDE: &str = "! -s 10.4.0.0/14 ";

/// Checks the effect of replacing the match for clients outside of the network, and of undoing it.
#[track_caller]
fn check_effect(to: &str, expected: &str, back: &str) {
    let sides = (with(&[]), with(&[(OUTSIDE, to)]));
    for (live, desired, expected) in [(&sides.0, &sides.1, expected), (&sides.1, &sides.0, back)] {
        let output = output(live, desired);
        let expected = format!(
            "shop/web:http/tcp changes (IPv4)\n  {expected}\n  nat KUBE-SVC-WEB -1 +1\n\n\
             1 service port differs, 1 affects packets: 1 changed, 0 added, 0 removed; 1 chain\n"
        );
        assert_eq!(output, expected);
    }
}

#[test]
fn masqueraded_clients_of_both_sides_are_named() {
    check_effect(
        "! -s 10.5.0.0/16 ",
        "traffic from outside 10.5.0.0/16 instead of 10.4.0.0/14 is masqueraded",
        "traffic from outside 10.4.0.0/14 instead of 10.5.0.0/16 is masqueraded",
    );
    check_effect(
        "",
        "all traffic is masqueraded, instead of traffic from outside 10.4.0.0/14",
        "traffic from outside 10.4.0.0/14 is masqueraded, instead of all traffic",
    );
    check_effect(
        "! -i cni+ ",
        "traffic by interfaces other than cni+ is masqueraded, instead of traffic from outside \
         10.4.0.0/14",
        "traffic from outside 10.4.0.0/14 is masqueraded, instead of traffic by interfaces other \
         than cni+",
    );
}

/// Returns the masquerade rule of one Service.
fn rule() -> String {
    let mut lines = SAVED.lines().filter(|line| line.contains(OUTSIDE));
    format!("{}\n", lines.next().unwrap())
}

#[test]
fn a_missing_masquerade_rule_is_an_effect_if_it_is_the_only_one() {
    check(
        &[(&rule(), "")],
        "\
shop/web:http/tcp changes (IPv4)
  traffic from outside 10.4.0.0/14 is no longer masqueraded
  nat KUBE-SVC-WEB -1

1 service port differs, 1 affects packets: 1 changed, 0 added, 0 removed; 1 chain
",
    );
    let added = output(&with(&[(&rule(), "")]), &with(&[]));
    assert!(
        added.contains("  traffic from outside 10.4.0.0/14 is now masqueraded\n"),
        "{added}"
    );
    // With another effect, only a change that it cannot have caused is listed.
    let moved = ("10.4.0.2:8080", "10.4.0.9:8080");
    let both = output(&with(&[]), &with(&[moved, (OUTSIDE, "! -s 10.5.0.0/16 ")]));
    assert!(both.contains("instead of 10.4.0.0/14 is"), "{both}");
    let gone = output(&with(&[]), &with(&[moved, (&rule(), "")]));
    assert!(!gone.contains("masqueraded"), "{gone}");
}

#[test]
fn json_has_the_clients_before_and_after() {
    let (live, desired) = (with(&[]), with(&[(&rule(), "")]));
    let document = json(
        &[compare(IpFamily::V4, &live, &desired)],
        &ManifestFacts::default(),
    );
    let outside =
        serde_json::json!({"kind": "outside", "network": "10.4.0.0/14", "interface": null});
    let expected = serde_json::json!([{"kind": "masquerade", "before": outside, "after": null}]);
    assert_eq!(document["servicePorts"][0]["effects"], expected);
}
