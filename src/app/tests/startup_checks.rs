//! Findings about configurations, nodes and Node objects.

use clap::Parser;

use super::Finding::{Fatal, Note, Warning};
use super::*;
use crate::config::{self, Cli, Command};

const BOTH: PerFamily<bool> = PerFamily { v4: true, v6: true };
const V4: PerFamily<bool> = PerFamily {
    v4: true,
    v6: false,
};

/// Returns the findings about flags and a Node: words are its addresses, or podCIDRs with a slash.
#[track_caller]
fn all_findings(flags: &str, usable: PerFamily<bool>, node: &str) -> Vec<Finding> {
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

/// Returns these findings without notes.
#[track_caller]
fn problems(flags: &str, usable: PerFamily<bool>, node: &str) -> Vec<Finding> {
    let mut findings = all_findings(flags, usable, node);
    findings.retain(|finding| !matches!(finding, Note(_)));
    findings
}

#[test]
fn a_usual_node_gets_notes_only() {
    let mut all = all_findings("--cluster-cidr=10.4.0.0/14", BOTH, "10.0.0.1");
    let last = all.pop();
    assert!(
        matches!(&last, Some(Note(text)) if text.starts_with("proxy mode is not set: ")),
        "{last:?}"
    );
    assert_eq!(
        all,
        [
            Note("serving IPv4 and IPv6; IPv4 is primary".to_owned()),
            Note(
                "--nodeport-addresses is not set: NodePorts accept connections on all addresses of \
                 this node; --nodeport-addresses=primary limits them"
                    .to_owned()
            ),
        ]
    );
}

#[test]
fn the_family_of_the_primary_address_must_be_usable() {
    let fatal = |flags, usable, node| {
        let first = all_findings(flags, usable, node).into_iter().next();
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
fn nodeport_addresses_of_one_family_leave_the_other_unrestricted() {
    let v6 = [Warning(
        "--nodeport-addresses has no IPv6 address: IPv6 NodePorts accept connections on all IPv6 \
         addresses of this node"
            .to_owned(),
    )];
    let dual = "--cluster-cidr=10.4.0.0/14,fd00:10::/48 --nodeport-addresses=";
    let check = |networks: &str, node| problems(&format!("{dual}{networks}"), BOTH, node);
    assert_eq!(check("10.0.0.0/8", "10.0.0.1"), v6);
    assert_eq!(check("10.0.0.0/8,fd00::/8", "10.0.0.1"), []);
    assert_eq!(check("primary", "10.0.0.1"), v6);
    assert_eq!(check("primary", "10.0.0.1 fd00::1"), []);
    assert_eq!(check("10.0.0.0/8", "fd00::1"), v6);
    assert_eq!(check("primary,localhost", "10.0.0.1"), []);
    assert_eq!(check("all", "10.0.0.1"), []);
    let single = "--cluster-cidr=10.4.0.0/14 --nodeport-addresses=10.0.0.0/8";
    assert_eq!(problems(single, BOTH, "10.0.0.1"), []);
}

#[test]
fn pod_networks_of_the_other_family_are_fatal_on_a_single_stack_node() {
    let cluster = "this node is IPv4-only, but --cluster-cidr has no IPv4 network";
    assert_eq!(
        problems("--cluster-cidr=fd00:10::/48", V4, "10.0.0.1"),
        [Fatal(cluster.to_owned())]
    );
    assert_eq!(
        problems("--cluster-cidr=fd00:10::/48", BOTH, "10.0.0.1"),
        [Warning(cluster.replace("only", "primary"))]
    );
    let pods = "this node is IPv4-primary, but its podCIDRs have no IPv4 network";
    let by_node = "--detect-local-mode=NodeCIDR";
    let node = "10.0.0.1 fd00:10::/64";
    assert_eq!(problems(by_node, BOTH, node), [Fatal(pods.to_owned())]);
    assert_eq!(problems("", BOTH, node), [Warning(pods.to_owned())]);
    assert_eq!(problems(by_node, BOTH, "10.0.0.1 10.4.0.0/24"), []);
    assert_eq!(problems(by_node, BOTH, "10.0.0.1").len(), 1);
}

#[test]
fn an_unreachable_bind_address_is_a_warning() {
    let health = "--healthz-bind-address=[fd00::1]:1";
    assert_eq!(
        problems(health, V4, "10.0.0.1"),
        [Warning(
            "this node is IPv4-only, but healthzBindAddress is `[fd00::1]:1`".to_owned()
        )]
    );
    assert_eq!(problems(health, BOTH, "10.0.0.1"), []);
    assert_eq!(
        problems("--healthz-bind-address=[::]:1", V4, "10.0.0.1"),
        []
    );
}

#[test]
fn nodeport_addresses_that_leave_no_nodeports_are_a_warning() {
    let unknown = Warning(
        "--nodeport-addresses: `primary` has no address yet: a family without another item has no \
         NodePorts until the Node has an address"
            .to_owned(),
    );
    let single = "--cluster-cidr=10.4.0.0/14 --nodeport-addresses=";
    let check = |flags: &str, node| problems(&format!("{single}{flags}"), BOTH, node);
    for items in ["primary", "primary,10.0.0.0/8"] {
        assert_eq!(check(items, "").first(), Some(&unknown), "{items}");
    }
    for items in ["primary,10.0.0.0/8,fd00::/8", "primary,localhost"] {
        assert!(!check(items, "").contains(&unknown), "{items}");
    }
    let excluded = Warning(
        "--nodeport-addresses has only addresses of localhost, which \
         --iptables-localhost-nodeports=false excludes: there are no NodePorts"
            .to_owned(),
    );
    let without = "localhost --iptables-localhost-nodeports=false";
    assert_eq!(check(without, "10.0.0.1"), [excluded]);
    let more = "primary,localhost --iptables-localhost-nodeports=false";
    assert_eq!(check(more, "10.0.0.1"), []);
    assert_eq!(check("localhost", "10.0.0.1"), []);
}
