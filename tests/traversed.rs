//! The number of rules that `explain` says a packet traverses, against the kernel.
//!
//! The kernel counts packets that match a rule, not those that a rule is compared with. So each
//! rule gets one before it that matches all and does nothing but count.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use deltaproxy::testing::inspect::explain::{ClientSelection, NodeRules, explain};
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::rules::RuleSet;

use crate::support::daemon::{Backend, real_program};
use crate::support::netns::Netns;
use crate::support::on_both_backends;
use crate::support::process::run;
use crate::support::rules::{Family, restore};

/// Services with one endpoint each.
const SERVICES: u8 = 40;

const NODE: &str = "192.168.0.2";

/// Rule that counts the packets that the next one is compared with.
const COUNTING: &str = "-p udp -m comment --comment counts";

on_both_backends!(Kernel, the_kernel_traverses_as_many_rules_as_explain_counts);

fn the_kernel_traverses_as_many_rules_as_explain_counts(backend: Backend) {
    let (flat, tree) = (rules(Dispatch::Flat), rules(Dispatch::Tree));
    for last_byte in [1, SERVICES / 2, SERVICES, SERVICES + 1, 200] {
        let to: SocketAddr = format!("10.96.0.{last_byte}:80").parse().unwrap();
        let [of_flat, of_tree] = [&flat, &tree].map(|rules| {
            let counted = counted_by_kernel(backend, rules, to);
            assert_eq!(counted_by_explain(rules, to), counted, "{to}:\n{rules}");
            counted
        });
        assert!(of_flat != of_tree, "{to}: {of_flat}");
    }
}

/// Arrangement of the rules of `KUBE-SERVICES`.
#[derive(Clone, Copy, PartialEq)]
enum Dispatch {
    Flat,
    /// With a chain for each prefix of 29 bits.
    Tree,
}

fn rules(form: Dispatch) -> RuleSet {
    let (mut chains, mut dispatch, mut services) = (String::new(), String::new(), String::new());
    for n in 1..=SERVICES {
        writeln!(chains, ":KUBE-SVC-{n} - [0:0]\n:KUBE-SEP-{n} - [0:0]").unwrap();
        let (chain, leaf) = match form {
            Dispatch::Flat => ("KUBE-SERVICES".to_owned(), None),
            Dispatch::Tree => (format!("KUBE-SVC-10.96.0.{}/29", n & !7), Some(n & !7)),
        };
        if let Some(first) = leaf.filter(|first| n == 1.max(*first)) {
            writeln!(chains, ":{chain} - [0:0]").unwrap();
            writeln!(
                dispatch,
                "-A KUBE-SERVICES -d 10.96.0.{first}/29 -j {chain}"
            )
            .unwrap();
        }
        writeln!(
            dispatch,
            "-A {chain} -d 10.96.0.{n}/32 -p udp -m udp --dport 80 -j KUBE-SVC-{n}"
        )
        .unwrap();
        writeln!(
            services,
            "-A KUBE-SVC-{n} ! -s 10.4.0.0/16 -d 10.96.0.{n}/32 -j KUBE-MARK-MASQ\n\
             -A KUBE-SVC-{n} -j KUBE-SEP-{n}\n\
             -A KUBE-SEP-{n} -s 10.4.0.{n}/32 -j KUBE-MARK-MASQ\n\
             -A KUBE-SEP-{n} -p udp -m udp -j DNAT --to-destination 10.4.0.{n}:8080"
        )
        .unwrap();
    }
    let text = format!(
        "*filter\n\
         :KUBE-PROXY-FIREWALL - [0:0]\n\
         :KUBE-SERVICES - [0:0]\n\
         -A OUTPUT -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL\n\
         -A OUTPUT -m conntrack --ctstate NEW -j KUBE-SERVICES\n\
         -A KUBE-SERVICES -d 10.96.1.1/32 -p udp -m udp --dport 80 -j REJECT\n\
         COMMIT\n\
         *nat\n\
         :KUBE-MARK-MASQ - [0:0]\n\
         :KUBE-NODEPORTS - [0:0]\n\
         :KUBE-POSTROUTING - [0:0]\n\
         :KUBE-SERVICES - [0:0]\n\
         {chains}\
         -A OUTPUT -j KUBE-SERVICES\n\
         -A POSTROUTING -j KUBE-POSTROUTING\n\
         -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
         -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
         -A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0\n\
         -A KUBE-POSTROUTING -j MASQUERADE\n\
         {dispatch}\
         -A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\n\
         {services}\
         COMMIT\n"
    );
    RuleSet::parse(&text).unwrap()
}

/// Sends a datagram from a node with these rules, and returns the number of rules that the kernel
/// compares it with.
fn counted_by_kernel(backend: Backend, rules: &RuleSet, to: SocketAddr) -> usize {
    let (netns, router) = (Netns::new("node"), Netns::new("router"));
    netns.join("out", &router, "in");
    netns.address("out", &format!("{NODE}/24"));
    netns.ip("route add default dev out");
    let mut text = String::new();
    for line in rules.to_save_text().lines() {
        if let Some(rule) = line.strip_prefix("-A ") {
            let chain = rule.split(' ').next().unwrap();
            writeln!(text, "-A {chain} {COUNTING}").unwrap();
        }
        writeln!(text, "{line}").unwrap();
    }
    restore(&netns, backend, Family::V4, &[], &text);
    netns.enter(|| {
        let socket = UdpSocket::bind((NODE, 0)).unwrap();
        socket.send_to(b"first", to).unwrap();
    });
    let saved = run(netns
        .command(real_program(backend, "iptables-save"))
        .arg("-c"));
    let counting = saved.lines().filter(|line| line.ends_with(COUNTING));
    let packets = counting.map(|line| {
        let counters = line.strip_prefix('[').unwrap();
        let (packets, _) = counters.split_once(':').unwrap();
        packets.parse::<usize>().unwrap()
    });
    packets.sum()
}

fn counted_by_explain(rules: &RuleSet, to: SocketAddr) -> usize {
    let node: IpAddr = NODE.parse().unwrap();
    let nodes = [NodeRules::new(rules, IpFamily::V4, &[node].into())];
    let client = ClientSelection::Source {
        ip: node,
        in_interface: None,
    };
    let query = format!("{to}/udp").parse().unwrap();
    let explained = explain(&query, &nodes, &client).unwrap();
    let path = &explained.first().unwrap().paths.first().unwrap();
    path.traversed.unwrap().rules
}
