//! Tests of the tables that the proxy does not use: `raw`, before connection tracking, and
//! `security`, after `filter`.

use super::trace::{packet, traced};
use crate::rules::RuleSet;

const NAT: &str = "\
*nat
-A PREROUTING -d 172.30.0.1/32 -j DNAT --to-destination 10.0.0.1
-A OUTPUT -d 172.30.0.1/32 -j DNAT --to-destination 10.0.0.1
-A POSTROUTING -j MASQUERADE
COMMIT
";

const POD: &str = "10.0.0.9";
const NODE: &str = "192.168.0.2";
const SERVICE: &str = "172.30.0.1";

#[track_caller]
fn check(source: &str, destination: &str, rules: &[&str], expected: &str) {
    let text = rules.join("\n") + "\n";
    let rules = RuleSet::parse(&format!("{NAT}{text}COMMIT\n")).unwrap();
    let found = traced(&rules, &packet(source, destination, 80));
    assert_eq!(found, format!("1: {expected}"), "{text}");
}

const ANSWERED: &str = "to 10.0.0.1:80, masqueraded";
const DROPPED: &str = "dropped";

/// The order of the hooks decides which of two rules ends a packet.
#[test]
fn raw_comes_first_and_security_last() {
    let unclear = |table: &str, chain: &str| {
        format!(
            "unclear: a rule in {table} {chain} matches, but its target is not supported: \
             -s 10.0.0.9/32 -j NFQUEUE"
        )
    };
    for (first, second, chain) in [
        ("raw", "mangle", "PREROUTING"),
        ("mangle", "filter", "FORWARD"),
        ("filter", "security", "FORWARD"),
    ] {
        let [queue, drop] =
            ["NFQUEUE", "DROP"].map(|target| format!("-A {chain} -s 10.0.0.9/32 -j {target}"));
        let [begin, next] = [first, second].map(|table| format!("*{table}"));
        let queued = [&*begin, &queue, "COMMIT", &next, &drop];
        check(POD, SERVICE, &queued, &unclear(first, chain));
        let dropped = [&*begin, &drop, "COMMIT", &next, &queue];
        check(POD, SERVICE, &dropped, DROPPED);
    }
}

#[test]
fn packets_that_are_not_tracked_are_not_translated() {
    for target in ["NOTRACK", "CT --notrack"] {
        let lost = "to 10.0.0.1:80, masqueraded, reply not translated back";
        for (source, packets, expected) in [
            (POD, "PREROUTING -d 172.30.0.1", "passed, source kept"),
            (NODE, "OUTPUT -d 172.30.0.1", "passed, source kept"),
            (POD, "PREROUTING -s 10.0.0.1", lost),
        ] {
            let rule = format!("-A {packets} -j {target}");
            check(source, SERVICE, &["*raw", &rule], expected);
        }
        // They were tracked when they left.
        let again = format!("-A PREROUTING -j {target}");
        let drop = "-A INPUT -m state --state NEW -j DROP";
        let rules = ["*raw", &again, "COMMIT", "*filter", drop];
        check(NODE, NODE, &rules, DROPPED);
    }
    for target in ["CT --helper ftp", "CT --zone 1"] {
        let rule = format!("-A PREROUTING -s 10.0.0.9 -j {target}");
        let expected = match target {
            "CT --helper ftp" => ANSWERED.to_owned(),
            _ => format!(
                "unclear: a rule in raw PREROUTING matches, but its target is not supported: \
                 -s 10.0.0.9/32 -j {target}"
            ),
        };
        check(POD, SERVICE, &["*raw", &rule], &expected);
    }
}
