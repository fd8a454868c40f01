//! Whose traffic is masqueraded, of one Service and of many.

use std::fmt::Write;

use super::super::{Review, compare, hint, json, text};
use super::{SAVED, check, with};
use crate::net::IpFamily;
use crate::rules::RuleSet;

const OUTSIDE: &str = "! -s 10.4.0.0/14 ";

/// What is said of one Service whose rules for this traffic are replaced, and of the way back.
#[track_caller]
fn told(to: &str, expected: &str, back: &str) {
    let sides = (with(&[]), with(&[(OUTSIDE, to)]));
    for (left, right, expected) in [(&sides.0, &sides.1, expected), (&sides.1, &sides.0, back)] {
        let said = super::told(left, right);
        let expected = format!(
            "shop/web:http/tcp changes (IPv4)\n  {expected}\n  nat KUBE-SVC-WEB -1 +1\n\n\
             1 service port changes, 0 added, 0 removed; 1 chain\n"
        );
        assert_eq!(said, expected);
    }
}

#[test]
fn it_is_said_whose_traffic_it_is() {
    told(
        "! -s 10.5.0.0/16 ",
        "traffic from outside 10.5.0.0/16 instead of 10.4.0.0/14 is masqueraded",
        "traffic from outside 10.4.0.0/14 instead of 10.5.0.0/16 is masqueraded",
    );
    told(
        "",
        "all traffic is masqueraded, instead of traffic from outside 10.4.0.0/14",
        "traffic from outside 10.4.0.0/14 is masqueraded, instead of all traffic",
    );
    told(
        "! -i cni+ ",
        "traffic by interfaces other than cni+ is masqueraded, instead of traffic from outside \
         10.4.0.0/14",
        "traffic from outside 10.4.0.0/14 is masqueraded, instead of traffic by interfaces other \
         than cni+",
    );
}

/// The rule of one Service for traffic from outside.
fn rule() -> String {
    let mut lines = SAVED.lines().filter(|line| line.contains(OUTSIDE));
    format!("{}\n", lines.next().unwrap())
}

#[test]
fn it_is_said_that_nobodys_is() {
    check(
        &[(&rule(), "")],
        "\
shop/web:http/tcp changes (IPv4)
  traffic from outside 10.4.0.0/14 is no longer masqueraded
  nat KUBE-SVC-WEB -1

1 service port changes, 0 added, 0 removed; 1 chain
",
    );
    let said = super::told(&with(&[(&rule(), "")]), &with(&[]));
    assert!(
        said.contains("  traffic from outside 10.4.0.0/14 is masqueraded now\n"),
        "{said}"
    );
    // Beside other differences, only what these cannot have brought along is said.
    let moved = ("10.4.0.2:8080", "10.4.0.9:8080");
    let both = super::told(&with(&[]), &with(&[moved, (OUTSIDE, "! -s 10.5.0.0/16 ")]));
    assert!(both.contains("instead of 10.4.0.0/14 is"), "{both}");
    let gone = super::told(&with(&[]), &with(&[moved, (&rule(), "")]));
    assert!(!gone.contains("masqueraded"), "{gone}");
}

#[test]
fn programs_are_told_before_and_after() {
    let (left, right) = (with(&[]), with(&[(&rule(), "")]));
    let document = json(&[compare(IpFamily::V4, &left, &right)]);
    let outside =
        serde_json::json!({"kind": "outside", "network": "10.4.0.0/14", "interface": null});
    let expected = serde_json::json!([{"kind": "masquerade", "before": outside, "after": null}]);
    assert_eq!(document["servicePorts"][0]["effects"], expected);
}

/// As many Services, each with one endpoint; the rule for traffic from elsewhere is this one.
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

#[track_caller]
fn hinted(before: Option<&str>, after: Option<&str>, expected: &str) {
    let (left, right) = (services(3, before), services(3, after));
    let found = hint(&[compare(IpFamily::V4, &left, &right)]);
    assert_eq!(found.as_deref(), Some(expected));
}

#[test]
fn many_services_are_told_of_once_and_a_flag_is_named() {
    let (left, right) = (services(12, Some("! -s 10.4.0.0/14")), services(12, None));
    let reviews = [compare(IpFamily::V4, &left, &right)];
    let mut said = String::new();
    text(&mut said, &reviews).unwrap();
    let names = "shop/s0/tcp, shop/s1/tcp, shop/s10/tcp, shop/s11/tcp, shop/s2/tcp, shop/s3/tcp, \
                 shop/s4/tcp, shop/s5/tcp, shop/s6/tcp, shop/s7/tcp";
    let expected = format!(
        "12 service ports change alike (IPv4)\n  \
         traffic from outside 10.4.0.0/14 is no longer masqueraded\n  {names} and 2 more\n\n\
         12 service ports change, 0 added, 0 removed; 12 chains\n"
    );
    assert_eq!(anstream::adapter::strip_str(&said).to_string(), expected);

    let outside = Some("! -s 10.4.0.0/14");
    let with = "the rules were written with";
    let flag = "--cluster-cidr 10.4.0.0/14";
    let same = format!("{with} {flag}; give the same");
    hinted(outside, None, &same);
    hinted(outside, Some("! -s 10.5.0.0/16"), &same);
    let without = format!("the rules were written without {flag}; leave it out");
    hinted(None, outside, &without);
    let all = format!("{with} --masquerade-all; give the same");
    hinted(Some(""), outside, &all);
    let prefix = "--detect-local-mode InterfaceNamePrefix --pod-interface-name-prefix veth";
    hinted(
        Some("! -i veth+"),
        outside,
        &format!("{with} {prefix}; give the same"),
    );
    let bridge = "--detect-local-mode BridgeInterface --pod-bridge-interface cni0";
    hinted(
        Some("! -i cni0"),
        outside,
        &format!("{with} {bridge}; give the same"),
    );
}

#[test]
fn a_flag_is_named_only_if_there_is_little_else() {
    let (left, right) = (services(3, Some("! -s 10.4.0.0/14")), services(3, None));
    let mut review: Review<'_> = compare(IpFamily::V4, &left, &right);
    assert!(hint(std::slice::from_ref(&review)).is_some());
    review.ports[1].effects.clear();
    assert_eq!(hint(&[review]), None);
    assert_eq!(hint(&[]), None);
}
