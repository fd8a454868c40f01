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

/// Source and destination of a packet, a table with one rule, and whether the rule drops it.
const DROPS: &str = "\
POD  | SERVICE | *raw      | -A PREROUTING -s 10.0.0.9 -j DROP              | yes
POD  | SERVICE | *raw      | -A OUTPUT -s 10.0.0.9 -j DROP                  | no
NODE | SERVICE | *raw      | -A OUTPUT -s 192.168.0.2 -j DROP               | yes
NODE | SERVICE | *raw      | -A PREROUTING -s 192.168.0.2 -j DROP           | no
POD  | SERVICE | *security | -A FORWARD -s 10.0.0.9 -j DROP                 | yes
POD  | SERVICE | *security | -A INPUT -s 10.0.0.9 -j DROP                   | no
POD  | SERVICE | *security | -A OUTPUT -s 10.0.0.9 -j DROP                  | no
NODE | SERVICE | *security | -A OUTPUT -s 192.168.0.2 -j DROP               | yes
POD  | SERVICE | *raw      | -P PREROUTING DROP                             | yes
POD  | SERVICE | *raw      | -A PREROUTING -m limit --limit 1/s -j DROP     | unclear
# Before and after translation.
POD  | SERVICE | *raw      | -A PREROUTING -d 172.30.0.1 -j DROP            | yes
POD  | SERVICE | *raw      | -A PREROUTING -d 10.0.0.1 -j DROP              | no
POD  | SERVICE | *security | -A FORWARD -d 10.0.0.1 -j DROP                 | yes
POD  | SERVICE | *security | -A FORWARD -d 172.30.0.1 -j DROP               | no
# What the node sends to itself comes in again.
NODE | NODE    | *raw      | -A PREROUTING -j DROP                          | yes
NODE | NODE    | *security | -A INPUT -j DROP                               | yes
";

#[test]
fn raw_and_security_drop_packets() {
    for row in DROPS.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = row.split(" | ").map(str::trim).collect();
        let address = |name| match name {
            "POD" => POD,
            "NODE" => NODE,
            _ => SERVICE,
        };
        let expected = match columns[4] {
            "yes" => DROPPED,
            "no" => ANSWERED,
            _ => "to 10.0.0.1:80, masqueraded (unclear)",
        };
        let [source, destination] = [columns[0], columns[1]].map(address);
        check(source, destination, &columns[2..4], expected);
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
        let expected = |is_match, otherwise| if is_match { DROPPED } else { otherwise };
        let drop = format!("-A PREROUTING -s 10.0.0.9 {condition} -j DROP");
        let passed = expected(in_raw, "passed, masqueraded");
        check(POD, "203.0.113.9", &["*raw", &drop], passed);
        let rules = [
            "*raw",
            "-A PREROUTING -j NOTRACK",
            "COMMIT",
            "*mangle",
            &drop,
        ];
        let passed = expected(untracked, "passed, source kept");
        check(POD, "203.0.113.9", &rules, passed);
    }
}
