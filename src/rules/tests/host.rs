//! Tests of rules about outgoing interfaces and IP sets, with a node to ask for them.

use std::net::IpAddr;
use std::sync::Arc;

use super::trace::packet;
use crate::rules::{
    HostLookup, Packet, RoutedPacket, RuleSet, SetElement, Side, TracedNode, trace,
};

/// Node with pods behind `cni0`, other hosts behind `eth0`, and with mark 0x80 behind `eth1`. The
/// set `pods` has the addresses of pods.
#[derive(Debug)]
struct Host;

fn is_pod(ip: IpAddr) -> bool {
    ip.to_string().starts_with("10.")
}

impl HostLookup for Host {
    fn out_interface(&self, packet: &RoutedPacket<'_>) -> Option<&str> {
        Some(match packet.mark {
            0x80 => "eth1",
            _ if is_pod(packet.destination) => "cni0",
            _ => "eth0",
        })
    }

    fn is_in_set(&self, set: &str, packet: &SetElement<'_>) -> Option<bool> {
        let ip = match packet.sides.first()? {
            Side::Source => packet.source,
            Side::Destination => packet.destination,
        };
        (set == "pods").then(|| is_pod(ip))
    }
}

fn traced_node() -> TracedNode {
    TracedNode {
        addresses: ["192.168.0.2".parse().unwrap()].into(),
        host: Some(Arc::new(Host)),
        ..TracedNode::default()
    }
}

/// Checks the verdict, with all rules decided, on the packet to port 80.
#[track_caller]
fn check(packet: &Packet, rules: &str, expected: &str) {
    let mut all = RuleSet::default();
    all.apply(rules).unwrap();
    let [outcome] = trace(&all, packet, &traced_node()).try_into().unwrap();
    assert!(outcome.undecided.is_empty(), "{rules}");
    assert_eq!(outcome.verdict.to_string(), expected, "{rules}");
}

const DNAT: &str = "*nat\n-A PREROUTING -p tcp -j DNAT --to-destination 10.0.0.7:80\n\
                    -A OUTPUT -p tcp -j DNAT --to-destination 10.0.0.7:80\nCOMMIT\n";
const DELIVERED: &str = "to 10.0.0.7:80, source kept";
const UNANSWERED: &str = "to 10.0.0.7:80, source kept, reply dropped";

#[test]
fn forwarded_packets_have_the_interface_of_the_route_after_translation() {
    let packet = Packet {
        in_interface: Some("eth0".into()),
        ..packet("203.0.113.1", "198.51.100.9", 80)
    };
    for (rule, expected) in [
        ("FORWARD -o cni0 -j DROP", "dropped"),
        ("FORWARD -o cni+ -j DROP", "dropped"),
        (
            "FORWARD -o eth0 -m conntrack --ctstate NEW -j DROP",
            DELIVERED,
        ),
        // The reply.
        ("FORWARD -o eth0 -j DROP", UNANSWERED),
        ("FORWARD -i cni0 -j DROP", UNANSWERED),
        ("FORWARD ! -i cni0 -o eth0 -j DROP", DELIVERED),
    ] {
        let rules = format!("{DNAT}*filter\n-A {rule}\nCOMMIT\n");
        check(&packet, &rules, expected);
    }
}

#[test]
fn packets_of_the_node_have_the_first_route_in_output() {
    let packet = packet("192.168.0.2", "198.51.100.9", 80);
    for (rule, expected) in [
        ("*filter\n-A OUTPUT -o cni0 -j DROP", DELIVERED),
        ("*filter\n-A OUTPUT -o eth0 -j DROP", "dropped"),
        ("*mangle\n-A OUTPUT -o eth0 -j DROP", "dropped"),
        ("*mangle\n-A POSTROUTING -o cni0 -j DROP", "dropped"),
        ("*mangle\n-A POSTROUTING -o eth0 -j DROP", DELIVERED),
        // The reply comes in where the request went out.
        ("*filter\n-A INPUT -i cni0 -j DROP", UNANSWERED),
        ("*filter\n-A INPUT -i eth0 -j DROP", DELIVERED),
    ] {
        check(&packet, &format!("{DNAT}{rule}\nCOMMIT\n"), expected);
    }
}

#[test]
fn the_mark_at_the_time_of_routing_selects_the_route() {
    let packet = packet("203.0.113.1", "198.51.100.9", 80);
    for (chain, expected) in [
        ("PREROUTING", "dropped"),
        ("FORWARD", "passed, source kept"),
    ] {
        let rules = format!(
            "*mangle\n-A {chain} -j MARK --set-xmark 0x80\nCOMMIT\n\
             *filter\n-A FORWARD -o eth1 -j DROP\nCOMMIT\n"
        );
        check(&packet, &rules, expected);
    }
}

#[test]
fn sets_are_looked_up() {
    let packet = packet("203.0.113.1", "198.51.100.9", 80);
    for (set, expected) in [
        ("--match-set pods src", UNANSWERED),
        ("--match-set pods dst", "dropped"),
        ("! --match-set pods dst", UNANSWERED),
    ] {
        let rules = format!("{DNAT}*filter\n-A FORWARD -m set {set} -j DROP\nCOMMIT\n");
        check(&packet, &rules, expected);
    }
    // The answer depends on counters, or the set is not known.
    for set in [
        "--match-set pods dst --packets-gt 1",
        "--match-set others dst",
    ] {
        let mut rules = RuleSet::default();
        let text = format!("*filter\n-A FORWARD -m set {set} -j DROP\nCOMMIT\n");
        rules.apply(&text).unwrap();
        let [outcome] = trace(&rules, &packet, &traced_node()).try_into().unwrap();
        assert_eq!(outcome.undecided.len(), 1, "{set}");
    }
}
