//! Tests of the tables that the proxy does not use: `raw`, before connection tracking, and
//! `security`, after `filter`.

use super::trace::{packet, traced_node};
use crate::rules::{RuleSet, trace};

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
    let packet = packet(source, destination, 80);
    let [outcome] = trace(&rules, &packet, &traced_node(&[]))
        .try_into()
        .unwrap();
    let unless = if outcome.undecided.is_empty() {
        ""
    } else {
        " (unclear)"
    };
    assert_eq!(format!("{}{unless}", outcome.verdict), expected, "{text}");
}

const ANSWERED: &str = "to 10.0.0.1:80, masqueraded";
const DROPPED: &str = "dropped";

#[test]
fn raw_and_security_drop_packets() {
    for (source, table, chain, expected) in [
        (POD, "*raw", "PREROUTING", DROPPED),
        (POD, "*raw", "OUTPUT", ANSWERED),
        (NODE, "*raw", "OUTPUT", DROPPED),
        (NODE, "*raw", "PREROUTING", ANSWERED),
        (POD, "*security", "FORWARD", DROPPED),
        (POD, "*security", "INPUT", ANSWERED),
        (POD, "*security", "OUTPUT", ANSWERED),
        (NODE, "*security", "OUTPUT", DROPPED),
    ] {
        let drop = format!("-A {chain} -s {source} -j DROP");
        check(source, SERVICE, &[table, &drop], expected);
    }
    let unclear = "to 10.0.0.1:80, masqueraded (unclear)";
    for (source, destination, table, rule, expected) in [
        // Before and after translation.
        (
            POD,
            SERVICE,
            "*raw",
            "-A PREROUTING -d 172.30.0.1 -j DROP",
            DROPPED,
        ),
        (
            POD,
            SERVICE,
            "*raw",
            "-A PREROUTING -d 10.0.0.1 -j DROP",
            ANSWERED,
        ),
        (
            POD,
            SERVICE,
            "*security",
            "-A FORWARD -d 10.0.0.1 -j DROP",
            DROPPED,
        ),
        (
            POD,
            SERVICE,
            "*security",
            "-A FORWARD -d 172.30.0.1 -j DROP",
            ANSWERED,
        ),
        (POD, SERVICE, "*raw", "-P PREROUTING DROP", DROPPED),
        (
            POD,
            SERVICE,
            "*raw",
            "-A PREROUTING -m limit --limit 1/s -j DROP",
            unclear,
        ),
        // What the node sends to itself comes in again.
        (NODE, NODE, "*raw", "-A PREROUTING -j DROP", DROPPED),
        (NODE, NODE, "*security", "-A INPUT -j DROP", DROPPED),
    ] {
        check(source, destination, &[table, rule], expected);
    }
}

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
        check(
            NODE,
            NODE,
            &["*raw", &again, "COMMIT", "*filter", drop],
            DROPPED,
        );
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

/// In `raw` there is no connection yet, so that its state is INVALID and nothing else of it
/// matches, not even with `!`.
#[test]
fn conditions_on_connections_depend_on_tracking() {
    for (condition, in_raw, untracked) in [
        ("-m conntrack --ctstate INVALID", true, false),
        ("-m conntrack --ctstate NEW,ESTABLISHED", false, false),
        ("-m state --state UNTRACKED", false, true),
        ("-m conntrack ! --ctstate NEW", true, true),
        ("-m conntrack ! --ctproto 17", false, false),
        ("-m conntrack --ctdir ORIGINAL", false, false),
        ("-m conntrack ! --ctstate NEW --ctproto 17", true, true),
        ("-m connmark ! --mark 0x1", false, false),
        ("-m connmark --mark 0x0", false, false),
    ] {
        let expected = |is_match| {
            if is_match {
                DROPPED
            } else {
                "passed, masqueraded"
            }
        };
        let drop = format!("-A PREROUTING -s 10.0.0.9 {condition} -j DROP");
        check(POD, "203.0.113.9", &["*raw", &drop], expected(in_raw));
        let expected = |is_match| {
            if is_match {
                DROPPED
            } else {
                "passed, source kept"
            }
        };
        let rules = [
            "*raw",
            "-A PREROUTING -j NOTRACK",
            "COMMIT",
            "*mangle",
            &drop,
        ];
        check(POD, "203.0.113.9", &rules, expected(untracked));
    }
}
