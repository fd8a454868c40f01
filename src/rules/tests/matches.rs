//! Tests of matches that depend on the packet: decided from its question, or named undecided.
//!
//! Each line is a condition of a rule that drops in front of a policy that accepts.

use super::trace::{packet, traced_node};
use crate::net::Protocol;
use crate::rules::{BridgePort, Packet, RuleSet, Verdict, trace};

/// Packet that a condition is tried on.
#[derive(Clone, Copy)]
struct Trial {
    source: &'static str,
    destination: &'static str,
    protocol: Protocol,
    bridge_port: BridgePort,
    table: &'static str,
    chain: &'static str,
}

/// TCP from outside to an address beyond the node.
const FORWARDED: Trial = Trial {
    source: "198.51.100.1",
    destination: "203.0.113.9",
    protocol: Protocol::Tcp,
    bridge_port: BridgePort::None,
    table: "filter",
    chain: "FORWARD",
};

/// TCP from a process on the node to an address beyond it.
const SENT: Trial = Trial {
    source: "192.168.0.2",
    chain: "OUTPUT",
    ..FORWARDED
};

/// TCP from a process on the node to its own address, when it comes in again.
const LOOPED_BACK: Trial = Trial {
    destination: "192.168.0.2",
    chain: "INPUT",
    ..SENT
};

/// UDP from outside to the node.
const RECEIVED: Trial = Trial {
    destination: "192.168.0.2",
    protocol: Protocol::Udp,
    chain: "INPUT",
    ..FORWARDED
};

const V6: Trial = Trial {
    source: "2001:db8::1",
    destination: "2001:db8:9::9",
    ..FORWARDED
};

/// Traces a packet to port 80, with the rules in front of all others. Returns `drop`, `pass`, or
/// `unclear` if undecided rules could change that.
fn traced(trial: Trial, rules: &str) -> &'static str {
    let text = format!("*{}\n{rules}COMMIT\n", trial.table);
    let mut all = RuleSet::default();
    all.apply(&text).unwrap();
    assert_eq!(all.unparsed_rules().count(), 0, "{rules}");
    let packet = Packet {
        protocol: trial.protocol,
        bridge_port: trial.bridge_port,
        ..packet(trial.source, trial.destination, 80)
    };
    let outcomes = trace(&all, &packet, &traced_node(&[]));
    let [outcome] = outcomes.as_slice() else {
        return "split";
    };
    match &outcome.verdict {
        _ if !outcome.undecided.is_empty() => "unclear",
        Verdict::Dropped => "drop",
        Verdict::Unclear(_) => "unsupported",
        _ => "pass",
    }
}

#[track_caller]
fn check(trial: Trial, expected: &str, conditions: &[&str]) {
    for condition in conditions {
        let rule = format!("-A {} {condition} -j DROP\n", trial.chain);
        assert_eq!(traced(trial, &rule), expected, "{condition}");
    }
}

const YES: &str = "drop";
const NO: &str = "pass";
const UNCLEAR: &str = "unclear";

#[test]
fn states_are_those_of_a_first_packet() {
    check(
        FORWARDED,
        YES,
        &[
            "-m state --state NEW",
            "-m state --state RELATED,NEW,ESTABLISHED",
            "-m state ! --state INVALID",
            "-m conntrack ! --ctstate RELATED,ESTABLISHED",
            "-m conntrack --ctstate NEW --ctproto 6 --ctdir ORIGINAL",
            "-m conntrack --ctproto TCP --ctorigsrc 198.51.100.0/24 --ctorigdst 203.0.113.9",
            "-m conntrack --ctorigdstport 80 ! --ctreplsrcport 1:79 --ctreplsrc 203.0.113.9",
            "-m conntrack --ctrepldst 198.51.100.1 ! --ctstatus ASSURED",
            "-m conntrack ! --ctstatus EXPECTED,CONFIRMED",
        ],
    );
    check(
        FORWARDED,
        NO,
        &[
            "-m state --state ESTABLISHED,RELATED",
            "-m state ! --state NEW",
            "-m state --state UNTRACKED",
            "-m conntrack --ctstate NEW --ctdir REPLY",
            "-m conntrack --ctproto udp --ctexpire 1:5",
            "-m conntrack ! --ctorigdst 203.0.113.0/24",
            "-m conntrack --ctstatus SEEN_REPLY,NONE",
            "-m helper --helper ftp",
        ],
    );
    check(
        FORWARDED,
        UNCLEAR,
        &[
            "-m conntrack --ctexpire 1:5",
            "-m conntrack ! --ctorigsrcport 1024:40000",
            "-m conntrack --ctrepldstport 5",
        ],
    );
    check(LOOPED_BACK, YES, &["-m conntrack --ctstatus CONFIRMED"]);
    let translated = Trial {
        table: "nat",
        chain: "PREROUTING",
        ..FORWARDED
    };
    let rules = "-A PREROUTING -d 203.0.113.9 -j DNAT --to-destination 10.0.0.7\nCOMMIT\n\
         *filter\n-A FORWARD -m conntrack --ctorigdst 203.0.113.9 --ctreplsrc 10.0.0.7 --ctstate DNAT -j DROP\n";
    assert_eq!(traced(translated, rules), YES);
}

#[test]
fn ports_of_bridges_match_bridged_packets_only() {
    let (yes, no) = (
        [
            "-m physdev ! --physdev-is-in",
            "-m physdev ! --physdev-in veth+ ! --physdev-is-bridged",
        ],
        [
            "-m physdev --physdev-is-in",
            "-m physdev ! --physdev-is-in --physdev-out veth+",
        ],
    );
    check(FORWARDED, YES, &yes);
    check(FORWARDED, NO, &no);
    let perhaps = |trial| Trial {
        bridge_port: BridgePort::Unknown,
        ..trial
    };
    check(perhaps(FORWARDED), UNCLEAR, &yes);
    check(perhaps(FORWARDED), UNCLEAR, &no);
    check(perhaps(SENT), YES, &yes);
}

#[test]
fn addresses_have_types_and_ranges() {
    check(
        FORWARDED,
        YES,
        &[
            "-m addrtype --dst-type UNICAST",
            "-m addrtype ! --dst-type LOCAL,BROADCAST,MULTICAST",
            "-m addrtype ! --src-type LOCAL --limit-iface-in",
            "-m iprange --src-range 198.51.100.0-198.51.100.9",
            "-m iprange --src-range 198.51.100.1 ! --dst-range 203.0.113.10-203.0.113.20",
            "-m pkttype --pkt-type unicast",
        ],
    );
    check(
        FORWARDED,
        NO,
        &[
            "-m addrtype --dst-type BROADCAST",
            "-m addrtype --src-type UNICAST --dst-type BLACKHOLE",
            "-m iprange --src-range 198.51.100.2-198.51.100.9",
            "-m iprange ! --dst-range 203.0.113.1-203.0.113.20",
            "-m pkttype ! --pkt-type unicast",
            "-m pkttype --pkt-type broadcast",
        ],
    );
    check(RECEIVED, YES, &["-m addrtype --dst-type LOCAL"]);
    check(RECEIVED, NO, &["-m addrtype --dst-type UNICAST"]);
    check(
        RECEIVED,
        UNCLEAR,
        &["-m addrtype --dst-type LOCAL --limit-iface-in"],
    );
}

#[test]
fn types_depend_on_the_kind_of_address() {
    let broadcast = Trial {
        destination: "203.0.113.255",
        ..FORWARDED
    };
    check(broadcast, UNCLEAR, &["-m addrtype --dst-type BROADCAST"]);
    check(
        broadcast,
        YES,
        &["-m addrtype --dst-type BROADCAST,UNICAST"],
    );
    check(broadcast, NO, &["-m addrtype --dst-type LOCAL"]);
    // The node is 192.168.0.2: its network may be as short as 192.168.0.0/30.
    for (destination, expected) in [
        ("192.168.0.3", UNCLEAR),
        ("192.168.0.127", UNCLEAR),
        ("192.168.0.191", YES),
        ("192.168.1.3", YES),
        ("192.168.0.1", YES),
    ] {
        let near = Trial {
            destination,
            ..FORWARDED
        };
        check(near, expected, &["-m addrtype --dst-type UNICAST"]);
    }
    let multicast = Trial {
        destination: "224.0.0.9",
        ..FORWARDED
    };
    check(multicast, YES, &["-m addrtype --dst-type MULTICAST"]);
    check(multicast, UNCLEAR, &["-m pkttype --pkt-type unicast"]);
    check(
        V6,
        YES,
        &[
            "-m addrtype ! --dst-type LOCAL",
            "-m addrtype --dst-type UNICAST",
            "-m iprange --src-range 2001:db8::1-2001:db8::f",
        ],
    );
    check(
        V6,
        NO,
        &[
            "-m addrtype --dst-type MULTICAST,UNREACHABLE",
            "-m rt --rt-type 0",
        ],
    );
    check(V6, UNCLEAR, &["-m addrtype ! --dst-type UNREACHABLE"]);
}

#[test]
fn sockets_are_those_of_processes_on_the_node() {
    let named = [
        "-m owner --uid-owner 0",
        "-m owner ! --gid-owner 5 --suppl-groups",
    ];
    check(SENT, UNCLEAR, &named);
    check(SENT, YES, &["-m owner --socket-exists"]);
    check(SENT, NO, &["-m owner ! --socket-exists --uid-owner 0"]);
    check(SENT, UNCLEAR, &["-m cgroup ! --cgroup 1048577"]);
    let leaving = Trial {
        table: "mangle",
        chain: "POSTROUTING",
        ..FORWARDED
    };
    check(leaving, NO, &named);
    check(
        leaving,
        YES,
        &["-m owner ! --uid-owner 0", "-m owner ! --socket-exists"],
    );
    // Packets without a socket do not match even with `!`.
    check(
        RECEIVED,
        NO,
        &["-m cgroup ! --cgroup 1048577", "-m cgroup --path a/b"],
    );
    check(
        LOOPED_BACK,
        NO,
        &["-m mac ! --mac-source 00:11:22:33:44:55"],
    );
    for trial in [FORWARDED, LOOPED_BACK] {
        check(trial, NO, &["-m rpfilter --loose --invert"]);
        check(trial, YES, &["-m rpfilter"]);
    }
}

#[test]
fn connections_begin_with_syn_alone() {
    check(
        FORWARDED,
        YES,
        &[
            "-p tcp --syn",
            "-p tcp -m tcp --dport 80 --tcp-flags FIN,SYN,RST,ACK SYN",
            "-p tcp ! --tcp-flags ALL NONE",
            "-p tcp ! --tcp-flags SYN,FIN SYN,FIN",
            "-p tcp --tcp-flags FIN,ACK NONE",
            "! -f",
        ],
    );
    check(
        FORWARDED,
        NO,
        &[
            "-p tcp ! --syn",
            "-p tcp --tcp-flags ALL ALL",
            "-p tcp --dport 81 --syn --tcp-option 8",
            "-p tcp --tcp-flags FIN,ACK FIN",
            "-p udp --dport 80",
            "-p icmp --icmp-type 8",
            "-f",
        ],
    );
    check(
        FORWARDED,
        UNCLEAR,
        &[
            "-p tcp --syn --tcp-option 8",
            "-p tcp ! --sport 1024:40000",
            "-p tcp --syn --sport 40000",
            "-p tcp -m multiport ! --sports 22,40000",
            "-p tcp -m tcpmss --mss 1400:1536",
        ],
    );
}

#[test]
fn counters_clocks_sets_and_payloads_are_undecided() {
    let unknown = [
        "-m bpf --object-pinned /sys/fs/bpf/x",
        "-m connbytes --connbytes 100:200 --connbytes-mode bytes --connbytes-dir both",
        "-m connlimit --connlimit-above 10 --connlimit-mask 32 --connlimit-saddr",
        "-m cpu ! --cpu 3",
        "-m devgroup --src-group 0x1/0xff",
        "-m dscp ! --dscp 0x08",
        "-m ecn ! --ecn-ip-ect 0",
        "-m geoip ! --source-country RU,CN",
        "-m hashlimit --hashlimit-upto 10/sec --hashlimit-name ssh",
        "-m ipvs ! --ipvs",
        "-m length ! --length 100:200",
        "-m limit --limit 5/min",
        "-m mac ! --mac-source 00:11:22:33:44:55",
        "-m policy --dir in --pol none",
        "-m quota ! --quota 1000",
        "-m realm --realm 0x5",
        "-m recent ! --rcheck --name A --rsource",
        "-m recent --update --seconds 60 --hitcount 4 --name SSH --rsource",
        "-m set ! --match-set cali40 src,dst",
        "-m socket --transparent",
        "-m string ! --string x --algo bm",
        "-m time --timestart 01:00:00",
        "-m tos --tos 0x10/0x3f",
        "-m ttl --ttl-lt 3",
        "-m u32 --u32 0x6&0xff=0x1",
    ];
    check(FORWARDED, UNCLEAR, &unknown);
    for condition in unknown {
        check(FORWARDED, NO, &[&format!("-p udp {condition}")]);
    }
}

#[test]
fn lists_and_counters_that_always_match() {
    let set = "-m recent --set --name odd --mask 255.255.255.0 --rdest";
    check(
        FORWARDED,
        YES,
        &[set, "-m recent --set", "-m nfacct --nfacct-name x"],
    );
    check(FORWARDED, NO, &["-m recent ! --set --name odd --rsource"]);
    check(
        FORWARDED,
        "split",
        &["-m statistic --mode nth --every 3 --packet 1"],
    );
    check(FORWARDED, YES, &["-m statistic --mode nth --every 1"]);
}

#[test]
fn marks_move_between_packets_and_connections() {
    let mangle = Trial {
        table: "mangle",
        chain: "PREROUTING",
        ..FORWARDED
    };
    for (target, condition, expected) in [
        ("MARK --set-xmark 0x5/0xf", "-m mark --mark 0x5", YES),
        (
            "CONNMARK --set-xmark 0x5/0xf",
            "-m connmark --mark 0x5/0xff",
            YES,
        ),
        ("CONNMARK --set-xmark 0x5/0xf", "-m mark --mark 0x5", NO),
        ("CONNMARK --or-mark 0x5", "-m connmark ! --mark 0x4/0x4", NO),
        (
            "CONNMARK --restore-mark --nfmask 0x1 --ctmask 0x1",
            "-m mark --mark 0x0",
            YES,
        ),
        (
            "CONNMARK --save-mark --left-shift-mark 2",
            "",
            "unsupported",
        ),
        ("HMARK --hmark-mod 10", "", "unsupported"),
    ] {
        let rules = format!("-A PREROUTING -j {target}\n-A PREROUTING {condition} -j DROP\n");
        assert_eq!(traced(mangle, &rules), expected, "{target}: {condition}");
    }
    let around = "-A PREROUTING -j MARK --set-xmark 0x30/0x30\n\
         -A PREROUTING -j CONNMARK --save-mark --nfmask 0xf0 --ctmask 0xffffffff\n\
         -A PREROUTING -j MARK --set-xmark 0x0/0xffffffff\n\
         -A PREROUTING -j CONNMARK --restore-mark\n\
         -A PREROUTING -m mark --mark 0x30 -j DROP\n";
    assert_eq!(traced(mangle, around), YES);
}
