//! What is said of configurations, machines and Nodes.

use clap::Parser;

use super::Finding::{Fatal, Odd, Usual};
use super::*;
use crate::config::{self, Cli, Command};

const BOTH: PerFamily<bool> = PerFamily { v4: true, v6: true };
const V4: PerFamily<bool> = PerFamily {
    v4: true,
    v6: false,
};

/// What is said of flags and a Node: addresses, then networks of Pods behind a slash.
#[track_caller]
fn said(flags: &str, usable: PerFamily<bool>, node: &str) -> Vec<Finding> {
    let words = ["deltaproxy", "run"]
        .into_iter()
        .chain(flags.split_whitespace());
    let Command::Run(args) = Cli::try_parse_from(words).unwrap().command else {
        panic!("not `run`")
    };
    let config = config::run(&args, None, "n").unwrap();
    let (cidrs, addresses): (Vec<&str>, Vec<&str>) =
        node.split_whitespace().partition(|word| word.contains('/'));
    let node = Node {
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        pod_cidrs: cidrs.iter().map(|text| text.parse().unwrap()).collect(),
        ..Node::default()
    };
    findings(&config, usable, Some(&node))
}

/// The same without what is said of every machine.
#[track_caller]
fn odd(flags: &str, usable: PerFamily<bool>, node: &str) -> Vec<Finding> {
    let mut findings = said(flags, usable, node);
    findings.retain(|finding| !matches!(finding, Usual(_)));
    findings
}

#[test]
fn a_usual_node_is_worth_a_note() {
    let all = said("--cluster-cidr=10.4.0.0/14", BOTH, "10.0.0.1");
    assert_eq!(
        all,
        [
            Usual("both families are served, IPv4 first".to_owned()),
            Usual(
                "NodePorts answer on every address of this machine; \
                 --nodeport-addresses=primary would limit them"
                    .to_owned()
            ),
        ]
    );
}

#[test]
fn the_first_address_says_which_family_is_needed() {
    let fatal = |flags, usable, node| {
        let first = said(flags, usable, node).into_iter().next();
        matches!(first, Some(Fatal(text)) if text.contains("IPv6"))
    };
    assert!(!fatal("", V4, ""));
    assert!(!fatal("", V4, "10.0.0.1 fd00::1"));
    assert!(fatal("", V4, "fd00::1 10.0.0.1"));
    assert!(!fatal("", BOTH, "fd00::1"));
    assert!(fatal("--bind-address=fd00::2", V4, "10.0.0.1"));
    assert!(!fatal("--bind-address=::", V4, "10.0.0.1"));
    assert!(!fatal("--bind-address=10.0.0.2", V4, "fd00::1"));
}

#[test]
fn networks_of_the_other_family_leave_node_ports_open() {
    let v6 = [Odd(
        "--nodeport-addresses has no IPv6 address: IPv6 NodePorts answer on all of them".to_owned(),
    )];
    let dual = "--cluster-cidr=10.4.0.0/14,fd00:10::/48 --nodeport-addresses=";
    let check = |networks: &str, node| odd(&format!("{dual}{networks}"), BOTH, node);
    assert_eq!(check("10.0.0.0/8", "10.0.0.1"), v6);
    assert_eq!(check("10.0.0.0/8,fd00::/8", "10.0.0.1"), []);
    assert_eq!(check("primary", "10.0.0.1"), v6);
    assert_eq!(check("primary", "10.0.0.1 fd00::1"), []);
    assert_eq!(check("primary", ""), []);
    assert_eq!(check("10.0.0.0/8", "fd00::1"), v6);
    let single = "--cluster-cidr=10.4.0.0/14 --nodeport-addresses=10.0.0.0/8";
    assert_eq!(odd(single, BOTH, "10.0.0.1"), []);
}

#[test]
fn pods_of_the_other_family_are_fatal_where_they_would_be_lost() {
    let cluster = "this node is IPv4-only, and --cluster-cidr has no IPv4 network";
    assert_eq!(
        odd("--cluster-cidr=fd00:10::/48", V4, "10.0.0.1"),
        [Fatal(cluster.to_owned())]
    );
    assert_eq!(
        odd("--cluster-cidr=fd00:10::/48", BOTH, "10.0.0.1"),
        [Odd(cluster.replace("only", "primary"))]
    );
    let pods = "this node is IPv4-primary, and its podCIDRs have no IPv4 network";
    let by_node = "--detect-local-mode=NodeCIDR";
    let node = "10.0.0.1 fd00:10::/64";
    assert_eq!(odd(by_node, BOTH, node), [Fatal(pods.to_owned())]);
    assert_eq!(odd("", BOTH, node), [Odd(pods.to_owned())]);
    assert_eq!(odd(by_node, BOTH, "10.0.0.1 10.4.0.0/24"), []);
    assert_eq!(odd(by_node, BOTH, "10.0.0.1").len(), 1);
}

#[test]
fn an_address_that_nobody_can_ask_is_odd() {
    let health = "--healthz-bind-address=[fd00::1]:1";
    assert_eq!(
        odd(health, V4, "10.0.0.1"),
        [Odd(
            "this node is IPv4-only, and healthzBindAddress is `[fd00::1]:1`".to_owned()
        )]
    );
    assert_eq!(odd(health, BOTH, "10.0.0.1"), []);
    assert_eq!(odd("--healthz-bind-address=[::]:1", V4, "10.0.0.1"), []);
}
