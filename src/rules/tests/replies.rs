//! Tests of replies: the receiver's first packet back to the client, through the same hooks.

use super::trace::{packet, traced, traced_node};
use crate::rules::{RuleSet, trace};

/// Sends packets to the Service 172.30.0.1:80 to 10.0.0.1:8080.
const SERVICE: &str = "\
*nat
:SVC - [0:0]
-A PREROUTING -d 172.30.0.1/32 -p tcp -m tcp --dport 80 -j SVC
-A OUTPUT -d 172.30.0.1/32 -p tcp -m tcp --dport 80 -j SVC
-A SVC -j DNAT --to-destination 10.0.0.1:8080
COMMIT
";

const POD: &str = "10.0.0.9";

/// Traces a packet of a Pod to the Service.
#[track_caller]
fn check(nat: &str, rules: &[&str], expected: &str) {
    let text = rules.join("\n") + "\n";
    let rules = RuleSet::parse(&format!("{nat}{text}COMMIT\n")).unwrap();
    let found = traced(&rules, &packet(POD, "172.30.0.1", 80));
    assert_eq!(found, expected, "{text}");
}

const ANSWERED: &str = "1: to 10.0.0.1:8080, source kept";
const DROPPED: &str = "1: to 10.0.0.1:8080, source kept, reply dropped";

/// The reply is SYN with ACK, from the receiver's port to one of those that clients choose from.
#[test]
fn conditions_see_the_reply() {
    for (condition, expected) in [
        ("-s 10.0.0.1 -d 10.0.0.9", DROPPED),
        ("-d 10.0.0.1 -m state ! --state NEW", ANSWERED),
        ("-s 10.0.0.1 -p tcp -m tcp --sport 8080", DROPPED),
        ("-s 10.0.0.1 -p tcp -m tcp --sport 80", ANSWERED),
        (
            "-s 10.0.0.1 -p tcp -m multiport --sports 8080,9090",
            DROPPED,
        ),
        (
            "-p tcp -m multiport --ports 9090 -m state ! --state NEW",
            ANSWERED,
        ),
        ("-p tcp -m tcp --dport 22 -s 10.0.0.1", ANSWERED),
        ("-p tcp -m tcp --dport 8080 -s 10.0.0.1", ANSWERED),
        ("-p tcp -m tcp --dport 1024:65535 -s 10.0.0.1", DROPPED),
        ("-p tcp -m tcp --dport 40000:65535 -s 10.0.0.1", UNCLEAR),
        ("-m conntrack --ctorigsrcport 22 -s 10.0.0.1", ANSWERED),
        ("-p tcp -m tcp --tcp-flags SYN,ACK SYN,ACK", DROPPED),
        ("-p tcp -m tcp --tcp-flags ALL SYN -s 10.0.0.1", ANSWERED),
        ("-p tcp -m tcp ! --syn", DROPPED),
        ("-m conntrack --ctdir REPLY", DROPPED),
        ("-m conntrack --ctstatus SEEN_REPLY", DROPPED),
        ("-m conntrack --ctstatus ASSURED", ANSWERED),
        ("-m conntrack --ctstate DNAT --ctdir REPLY", DROPPED),
        (
            "-m conntrack --ctdir REPLY --ctorigdst 172.30.0.1 --ctreplsrc 10.0.0.1",
            DROPPED,
        ),
        ("-m iprange --src-range 10.0.0.1-10.0.0.3", DROPPED),
        ("-m addrtype --dst-type UNICAST -s 10.0.0.1", DROPPED),
        ("-m addrtype --src-type LOCAL", ANSWERED),
        ("-m mark --mark 0x1", ANSWERED),
        ("-m recent --rcheck --name seen -s 10.0.0.1", UNCLEAR),
        ("-m physdev --physdev-is-in -s 10.0.0.1", UNCLEAR),
        ("-m limit --limit 1/s -s 10.0.0.1", UNCLEAR),
    ] {
        let rule = format!("-A FORWARD {condition} -j DROP");
        check(SERVICE, &["*filter", &rule], expected);
    }
}

const UNCLEAR: &str = "1: to 10.0.0.1:8080, source kept (unclear)";

#[test]
fn the_mark_of_the_connection_is_kept_for_the_reply() {
    let save = "-A PREROUTING -s 10.0.0.9 -j CONNMARK --set-xmark 0x1/0x1";
    let drop = "-A FORWARD -m conntrack --ctdir REPLY -m connmark --mark 0x1/0x1 -j DROP";
    check(SERVICE, &["*mangle", save, drop], DROPPED);
    let undecided = save.replace("-s 10.0.0.9", "-m limit --limit 1/s");
    check(SERVICE, &["*mangle", &undecided, drop], UNCLEAR);
    let mark = "-A PREROUTING -s 10.0.0.9 -j MARK --set-xmark 0x1/0x1";
    let drop = "-A FORWARD -m mark --mark 0x1/0x1 -s 10.0.0.1 -j DROP";
    check(SERVICE, &["*mangle", mark, drop], ANSWERED);
}

/// Before it is translated back, the reply is sent to an address of the node.
#[test]
fn replies_to_masqueraded_packets_are_translated_back_after_mangle() {
    let nat = SERVICE.replace("COMMIT", "-A POSTROUTING -j MASQUERADE\nCOMMIT");
    let (answered, dropped) = (
        "1: to 10.0.0.1:8080, masqueraded",
        "1: to 10.0.0.1:8080, masqueraded, reply dropped",
    );
    for (table, rule, expected) in [
        ("*mangle", "PREROUTING -s 10.0.0.1 -d 192.168.0.2", dropped),
        ("*mangle", "PREROUTING -s 10.0.0.1 -d 10.0.0.9", answered),
        (
            "*raw",
            "PREROUTING -s 10.0.0.1 -m addrtype --dst-type LOCAL",
            dropped,
        ),
        ("*mangle", "FORWARD -s 10.0.0.1 -d 10.0.0.9", dropped),
        ("*filter", "FORWARD -s 10.0.0.1 -d 192.168.0.2", answered),
        ("*filter", "INPUT", answered),
    ] {
        check(&nat, &[table, &format!("-A {rule} -j DROP")], expected);
    }
    let snat = nat.replace("MASQUERADE", "SNAT --to-source 192.0.2.1");
    let drop = "-A PREROUTING -s 10.0.0.1 -d 192.0.2.1 -j DROP";
    check(&snat, &["*raw", drop], dropped);
    let range = nat.replace("MASQUERADE", "SNAT --to-source 192.0.2.1-192.0.2.9");
    let unclear = "1: to 10.0.0.1:8080, masqueraded (unclear)";
    check(&range, &["*raw", drop], unclear);
}

/// A reply comes in where the request went out, and goes out where that came in.
#[test]
fn interfaces_are_swapped() {
    let rules = |rule: &str| {
        let text = format!("{SERVICE}*filter\n-A FORWARD -s 10.0.0.1 {rule} -j DROP\nCOMMIT\n");
        RuleSet::parse(&text).unwrap()
    };
    let mut packet = packet(POD, "172.30.0.1", 80);
    packet.in_interface = Some("cali12".into());
    for (rule, expected, is_clear) in [
        ("-o cali12", DROPPED, true),
        ("-o eth0", ANSWERED, true),
        ("-i cali12", ANSWERED, false),
        ("-i lo", ANSWERED, true),
    ] {
        let rules = rules(rule);
        let [outcome] = trace(&rules, &packet, &traced_node()).try_into().unwrap();
        assert_eq!(format!("1: {}", outcome.verdict), expected, "{rule}");
        assert_eq!(outcome.undecided.is_empty(), is_clear, "{rule}");
    }
}

#[test]
fn a_random_rule_loses_a_share_of_the_replies() {
    let half = "-A FORWARD -s 10.0.0.1 -m statistic --mode random --probability 0.5 -j DROP";
    let expected = "1/2: to 10.0.0.1:8080, source kept, reply dropped; \
                    1/2: to 10.0.0.1:8080, source kept";
    check(SERVICE, &["*filter", half], expected);
}
