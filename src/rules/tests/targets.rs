//! Tests of targets that are kept as text: translations by rules of other programs.

use super::trace::{packet, traced_node};
use crate::rules::{RuleSet, trace};

/// Traces TCP to port 80 of a node with one address through rules of the nat table.
#[track_caller]
fn check(source: &str, destination: &str, rules: &str, expected: &str) {
    let mut all = RuleSet::default();
    all.apply(&format!("*nat\n{rules}\nCOMMIT\n")).unwrap();
    let packet = packet(source, destination, 80);
    let [outcome] = trace(&all, &packet, &traced_node()).try_into().unwrap();
    assert!(outcome.undecided.is_empty(), "{rules}");
    assert_eq!(outcome.verdict.to_string(), expected, "{rules}");
}

const OUTSIDE: &str = "198.51.100.1";
const NODE: &str = "192.168.0.2";
const BEYOND: &str = "203.0.113.9";

fn unsupported(chain: &str, target: &str) -> String {
    format!(
        "unclear: a rule in nat {chain} matches, but its target is not supported: -p tcp {target}"
    )
}

#[test]
fn destinations_are_translated_to_one_address() {
    for (to, expected) in [
        (
            "10.0.0.7:8080 --random --persistent",
            "to 10.0.0.7:8080, source kept",
        ),
        ("10.0.0.7 --random", "to 10.0.0.7:80, source kept"),
        (":8080", "to 203.0.113.9:8080, source kept"),
    ] {
        let rule = format!("-A PREROUTING -p tcp -j DNAT --to-destination {to}");
        check(OUTSIDE, BEYOND, &rule, expected);
    }
    check(
        "2001:db8::1",
        "2001:db8:9::9",
        "-A PREROUTING -p tcp -j DNAT --to-destination [fd00::7]:8080 --random",
        "to [fd00::7]:8080, source kept",
    );
    for to in [
        "10.0.0.1-10.0.0.9",
        "10.0.0.1:80-90",
        "10.0.0.1-10.0.0.9:80",
    ] {
        let target = format!("-j DNAT --to-destination {to}");
        let rule = format!("-A PREROUTING -p tcp {target}");
        check(OUTSIDE, BEYOND, &rule, &unsupported("PREROUTING", &target));
    }
}

#[test]
fn redirect_translates_to_the_node() {
    let rule = "-A PREROUTING -p tcp -j REDIRECT --to-ports 8080";
    check(OUTSIDE, BEYOND, rule, "to 192.168.0.2:8080, source kept");
    let rule = "-A PREROUTING -j REDIRECT";
    check(
        "2001:db8::1",
        "2001:db8:9::9",
        rule,
        "to [fd00::2]:80, source kept",
    );
    let rule = "-A OUTPUT -p tcp -j REDIRECT --to-ports 8080";
    check(NODE, BEYOND, rule, "to 127.0.0.1:8080, source kept");
    let target = "-j REDIRECT --to-ports 8080-8090";
    let rule = format!("-A PREROUTING -p tcp {target}");
    check(OUTSIDE, BEYOND, &rule, &unsupported("PREROUTING", target));
}

#[test]
fn netmap_translates_whole_networks() {
    let rule = "-A PREROUTING -d 203.0.113.0/24 -j NETMAP --to 10.5.0.0/24";
    check(OUTSIDE, BEYOND, rule, "to 10.5.0.9:80, source kept");
    let rule = "-A POSTROUTING -j NETMAP --to 10.5.0.0/24";
    check(OUTSIDE, BEYOND, rule, "passed, masqueraded");
}

#[test]
fn sources_are_translated_on_the_way_in() {
    let rule = "-A INPUT -j SNAT --to-source 10.9.9.9";
    check(OUTSIDE, NODE, rule, "passed, masqueraded");
    // Packets of the node to itself passed POSTROUTING.
    check(NODE, NODE, rule, "passed, source kept");
    check(OUTSIDE, BEYOND, rule, "passed, source kept");
}

#[test]
fn targets_of_other_programs_are_not_supported() {
    for target in ["-j SYNPROXY --mss 1460", "-j NFQUEUE --queue-num 1"] {
        let rule = format!("-A PREROUTING -p tcp {target}");
        check(OUTSIDE, BEYOND, &rule, &unsupported("PREROUTING", target));
    }
}
