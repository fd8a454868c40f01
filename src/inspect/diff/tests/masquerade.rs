//! Changes of the masqueraded clients, of one Service and of many.

use std::fmt::Write;

use super::super::{ManifestFacts, compare, json};
use super::{SAVED, check, output, shown, with};
use crate::net::IpFamily;
use crate::rules::RuleSet;

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

/// Returns Services with one endpoint each, and a masquerade rule with this condition, if any.
fn services(count: usize, condition: Option<&str>) -> RuleSet {
    let (mut chains, mut rules) = (String::new(), String::new());
    for number in 0..count {
        let to = format!("-d 10.96.1.{number}/32 -p tcp -m tcp --dport 80");
        let (svc, sep) = (format!("KUBE-SVC-S{number}"), format!("KUBE-SEP-S{number}"));
        let masquerade = condition
            .map(|condition| format!("-A {svc} {condition} {to} -j KUBE-MARK-MASQ\n"))
            .unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = write!(chains, ":{svc} - [0:0]\n:{sep} - [0:0]\n");
        let _ = write!(
            rules,
            "-A KUBE-SERVICES {to} -m comment --comment \"shop/s{number} cluster IP\" -j {svc}\n\
             {masquerade}-A {svc} -j {sep}\n\
             -A {sep} -p tcp -m tcp -j DNAT --to-destination 10.4.0.{number}:80\n"
        );
    }
    let text =
        format!("*nat\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-SERVICES - [0:0]\n{chains}{rules}COMMIT\n");
    RuleSet::parse(&text).unwrap()
}

#[test]
fn service_ports_with_the_same_effect_are_grouped() {
    let (live, desired) = (services(12, Some("! -s 10.4.0.0/14")), services(12, None));
    let reviews = [compare(IpFamily::V4, &live, &desired)];
    let output = shown(&reviews);
    let names = "shop/s0/tcp, shop/s1/tcp, shop/s10/tcp, shop/s11/tcp, shop/s2/tcp, shop/s3/tcp, \
                 shop/s4/tcp, shop/s5/tcp, shop/s6/tcp, shop/s7/tcp";
    let expected = format!(
        "12 service ports change in the same way (IPv4)\n  \
         traffic from outside 10.4.0.0/14 is no longer masqueraded\n  {names} and 2 more\n\n\
         12 service ports differ, 12 affect packets: 12 changed, 0 added, 0 removed; 12 chains\n"
    );
    assert_eq!(output, expected);
}
