//! Tests of matches that depend on the packet: decided from its question, or named undecided.
//!
//! Each row is a packet, whether it is dropped, and the condition of a rule that drops in front of
//! a policy that accepts.

use super::trace::{packet, traced_node};
use crate::net::Protocol;
use crate::rules::{BridgePort, Packet, RuleSet, Verdict, trace};

/// Packet that a condition is tried on.
#[derive(Clone, Copy)]
struct Trial<'a> {
    source: &'a str,
    destination: &'a str,
    protocol: Protocol,
    bridge_port: BridgePort,
    table: &'static str,
    chain: &'static str,
}

/// TCP from outside to an address beyond the node.
const FORWARDED: Trial<'static> = Trial {
    source: "198.51.100.1",
    destination: "203.0.113.9",
    protocol: Protocol::Tcp,
    bridge_port: BridgePort::None,
    table: "filter",
    chain: "FORWARD",
};

/// TCP from a process on the node to an address beyond it.
const SENT: Trial<'static> = Trial {
    source: "192.168.0.2",
    chain: "OUTPUT",
    ..FORWARDED
};

/// TCP from a process on the node to its own address, when it comes in again.
const LOOPED_BACK: Trial<'static> = Trial {
    destination: "192.168.0.2",
    chain: "INPUT",
    ..SENT
};

/// UDP from outside to the node.
const RECEIVED: Trial<'static> = Trial {
    destination: "192.168.0.2",
    protocol: Protocol::Udp,
    chain: "INPUT",
    ..FORWARDED
};

/// As `FORWARDED`, after routing.
const LEAVING: Trial<'static> = Trial {
    table: "mangle",
    chain: "POSTROUTING",
    ..FORWARDED
};

const V6: Trial<'static> = Trial {
    source: "2001:db8::1",
    destination: "2001:db8:9::9",
    ..FORWARDED
};

/// Traces a packet to port 80, with the rules in front of all others. Returns `drop`, `pass`, or
/// `unclear` if undecided rules could change that.
fn traced(trial: Trial<'_>, rules: &str) -> &'static str {
    let text = format!("*{}\n{rules}COMMIT\n", trial.table);
    let mut all = RuleSet::default();
    all.apply(&text).unwrap();
    assert_eq!(all.unparsed_rules().count(), 0, "{rules}");
    let packet = Packet {
        protocol: trial.protocol,
        bridge_port: trial.bridge_port,
        ..packet(trial.source, trial.destination, 80)
    };
    let outcomes = trace(&all, &packet, &traced_node());
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
fn check(trial: Trial<'_>, expected: &str, condition: &str) {
    let rule = format!("-A {} {condition} -j DROP\n", trial.chain);
    assert_eq!(traced(trial, &rule), expected, "{condition}");
}

const YES: &str = "drop";
const NO: &str = "pass";
const UNCLEAR: &str = "unclear";

fn trial_of(packet: &str) -> Trial<'_> {
    match packet {
        "forwarded" => FORWARDED,
        "sent" => SENT,
        "looped back" => LOOPED_BACK,
        "received" => RECEIVED,
        "IPv6" => V6,
        "leaving" => LEAVING,
        "maybe bridged" => Trial {
            bridge_port: BridgePort::Unknown,
            ..FORWARDED
        },
        to => Trial {
            destination: to.strip_prefix("to ").unwrap(),
            ..FORWARDED
        },
    }
}

const TABLE: &str = "\
# States are those of a first packet.
forwarded        | drop    | -m state --state NEW
forwarded        | drop    | -m state --state RELATED,NEW,ESTABLISHED
forwarded        | drop    | -m state ! --state INVALID
forwarded        | drop    | -m conntrack ! --ctstate RELATED,ESTABLISHED
forwarded        | drop    | -m conntrack --ctstate NEW --ctproto 6 --ctdir ORIGINAL
forwarded        | drop    | -m conntrack --ctproto TCP --ctorigsrc 198.51.100.0/24 --ctorigdst 203.0.113.9
forwarded        | drop    | -m conntrack --ctorigdstport 80 ! --ctreplsrcport 1:79 --ctreplsrc 203.0.113.9
forwarded        | drop    | -m conntrack --ctrepldst 198.51.100.1 ! --ctstatus ASSURED
forwarded        | drop    | -m conntrack ! --ctstatus EXPECTED,CONFIRMED
looped back      | drop    | -m conntrack --ctstatus CONFIRMED
forwarded        | pass    | -m state --state ESTABLISHED,RELATED
forwarded        | pass    | -m state ! --state NEW
forwarded        | pass    | -m state --state UNTRACKED
forwarded        | pass    | -m conntrack --ctstate NEW --ctdir REPLY
forwarded        | pass    | -m conntrack --ctproto udp --ctexpire 1:5
forwarded        | pass    | -m conntrack ! --ctorigdst 203.0.113.0/24
forwarded        | pass    | -m conntrack --ctstatus SEEN_REPLY,NONE
forwarded        | pass    | -m helper --helper ftp
forwarded        | unclear | -m conntrack --ctexpire 1:5
forwarded        | unclear | -m conntrack ! --ctorigsrcport 1024:40000
forwarded        | unclear | -m conntrack --ctrepldstport 5

# Ports of bridges match bridged packets only.
forwarded        | drop    | -m physdev ! --physdev-is-in
forwarded        | drop    | -m physdev ! --physdev-in veth+ ! --physdev-is-bridged
forwarded        | pass    | -m physdev --physdev-is-in
forwarded        | pass    | -m physdev ! --physdev-is-in --physdev-out veth+
maybe bridged    | unclear | -m physdev ! --physdev-is-in
maybe bridged    | unclear | -m physdev ! --physdev-in veth+ ! --physdev-is-bridged
maybe bridged    | unclear | -m physdev --physdev-is-in
maybe bridged    | unclear | -m physdev ! --physdev-is-in --physdev-out veth+
sent             | drop    | -m physdev ! --physdev-is-in
sent             | drop    | -m physdev ! --physdev-in veth+ ! --physdev-is-bridged

# Addresses have types and ranges.
forwarded        | drop    | -m addrtype --dst-type UNICAST
forwarded        | drop    | -m addrtype ! --dst-type LOCAL,BROADCAST,MULTICAST
forwarded        | drop    | -m addrtype ! --src-type LOCAL --limit-iface-in
forwarded        | drop    | -m iprange --src-range 198.51.100.0-198.51.100.9
forwarded        | drop    | -m iprange --src-range 198.51.100.1 ! --dst-range 203.0.113.10-203.0.113.20
forwarded        | drop    | -m pkttype --pkt-type unicast
forwarded        | pass    | -m addrtype --dst-type BROADCAST
forwarded        | pass    | -m addrtype --src-type UNICAST --dst-type BLACKHOLE
forwarded        | pass    | -m iprange --src-range 198.51.100.2-198.51.100.9
forwarded        | pass    | -m iprange ! --dst-range 203.0.113.1-203.0.113.20
forwarded        | pass    | -m pkttype ! --pkt-type unicast
forwarded        | pass    | -m pkttype --pkt-type broadcast
received         | drop    | -m addrtype --dst-type LOCAL
received         | pass    | -m addrtype --dst-type UNICAST
received         | unclear | -m addrtype --dst-type LOCAL --limit-iface-in
IPv6             | drop    | -m addrtype ! --dst-type LOCAL
IPv6             | drop    | -m addrtype --dst-type UNICAST
IPv6             | drop    | -m iprange --src-range 2001:db8::1-2001:db8::f
IPv6             | pass    | -m addrtype --dst-type MULTICAST,UNREACHABLE
IPv6             | pass    | -m rt --rt-type 0
IPv6             | unclear | -m addrtype ! --dst-type UNREACHABLE
to 203.0.113.255 | unclear | -m addrtype --dst-type BROADCAST
to 203.0.113.255 | drop    | -m addrtype --dst-type BROADCAST,UNICAST
to 203.0.113.255 | pass    | -m addrtype --dst-type LOCAL
to 224.0.0.9     | drop    | -m addrtype --dst-type MULTICAST
to 224.0.0.9     | unclear | -m pkttype --pkt-type unicast

# The node is 192.168.0.2: its network may be as short as 192.168.0.0/30.
to 192.168.0.3   | unclear | -m addrtype --dst-type UNICAST
to 192.168.0.127 | unclear | -m addrtype --dst-type UNICAST
to 192.168.0.191 | drop    | -m addrtype --dst-type UNICAST
to 192.168.1.3   | drop    | -m addrtype --dst-type UNICAST
to 192.168.0.1   | drop    | -m addrtype --dst-type UNICAST

# Sockets are those of processes on the node. Without one, even `!` does not match.
sent             | unclear | -m owner --uid-owner 0
sent             | unclear | -m owner ! --gid-owner 5 --suppl-groups
sent             | drop    | -m owner --socket-exists
sent             | pass    | -m owner ! --socket-exists --uid-owner 0
sent             | unclear | -m cgroup ! --cgroup 1048577
leaving          | pass    | -m owner --uid-owner 0
leaving          | pass    | -m owner ! --gid-owner 5 --suppl-groups
leaving          | drop    | -m owner ! --uid-owner 0
leaving          | drop    | -m owner ! --socket-exists
received         | pass    | -m cgroup ! --cgroup 1048577
received         | pass    | -m cgroup --path a/b
looped back      | pass    | -m mac ! --mac-source 00:11:22:33:44:55
forwarded        | pass    | -m rpfilter --loose --invert
forwarded        | drop    | -m rpfilter
looped back      | pass    | -m rpfilter --loose --invert
looped back      | drop    | -m rpfilter

# Connections begin with SYN alone.
forwarded        | drop    | -p tcp --syn
forwarded        | drop    | -p tcp -m tcp --dport 80 --tcp-flags FIN,SYN,RST,ACK SYN
forwarded        | drop    | -p tcp ! --tcp-flags ALL NONE
forwarded        | drop    | -p tcp ! --tcp-flags SYN,FIN SYN,FIN
forwarded        | drop    | -p tcp --tcp-flags FIN,ACK NONE
forwarded        | drop    | ! -f
forwarded        | pass    | -p tcp ! --syn
forwarded        | pass    | -p tcp --tcp-flags ALL ALL
forwarded        | pass    | -p tcp --dport 81 --syn --tcp-option 8
forwarded        | pass    | -p tcp --tcp-flags FIN,ACK FIN
forwarded        | pass    | -p udp --dport 80
forwarded        | pass    | -p icmp --icmp-type 8
forwarded        | pass    | -f
forwarded        | unclear | -p tcp --syn --tcp-option 8
forwarded        | unclear | -p tcp ! --sport 1024:40000
forwarded        | unclear | -p tcp --syn --sport 40000
forwarded        | unclear | -p tcp -m multiport ! --sports 22,40000
forwarded        | unclear | -p tcp -m tcpmss --mss 1400:1536

# Lists and counters that always match, and one that matches every third packet.
forwarded        | drop    | -m recent --set --name odd --mask 255.255.255.0 --rdest
forwarded        | drop    | -m recent --set
forwarded        | drop    | -m nfacct --nfacct-name x
forwarded        | pass    | -m recent ! --set --name odd --rsource
forwarded        | split   | -m statistic --mode nth --every 3 --packet 1
forwarded        | drop    | -m statistic --mode nth --every 1
";

#[test]
fn conditions_are_decided_or_unclear() {
    let is_row = |line: &&str| !line.is_empty() && !line.starts_with('#');
    for row in TABLE.lines().filter(is_row) {
        let [packet, expected, condition] = row.splitn(3, '|').collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        check(trial_of(packet.trim()), expected.trim(), condition.trim());
    }
}

#[test]
fn translated_connections_have_both_destinations() {
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
    for condition in unknown {
        check(FORWARDED, UNCLEAR, condition);
        check(FORWARDED, NO, &format!("-p udp {condition}"));
    }
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
