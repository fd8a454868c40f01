//! The policy of an endpoint change, whichever side has the service port.

use super::super::{ManifestFacts, json};
use super::{compare, output, with};
use crate::net::IpFamily;
use crate::rules::RuleSet;

const FRONTENDS: [&str; 2] = [
    "-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-WEB\n",
    "-A KUBE-NODEPORTS -p tcp -m comment --comment \"shop/web:http\" -m tcp --dport 30080 -j KUBE-EXT-WEB\n",
];

const REJECTED: &str = "-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http has no endpoints\" -m tcp --dport 80 -j REJECT\n\
    -A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment \"shop/web:http has no endpoints\" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j REJECT\n";

/// Edits that make the external policy Local, with one of the two endpoints on this node.
const LOCAL: [(&str, &str); 2] = [
    (
        "-A KUBE-EXT-WEB -m comment --comment \"masquerade traffic for shop/web:http external destinations\" -j KUBE-MARK-MASQ\n-A KUBE-EXT-WEB -j KUBE-SVC-WEB\n",
        "-A KUBE-EXT-WEB -m comment --comment \"route LOCAL traffic for shop/web:http external destinations\" -m addrtype --src-type LOCAL -j KUBE-SVC-WEB\n\
         -A KUBE-EXT-WEB -j KUBE-SVL-WEB\n\
         -A KUBE-SVL-WEB -j KUBE-SEP-TWO\n",
    ),
    (":KUBE-SVC-WEB", ":KUBE-SVL-WEB - [0:0]\n:KUBE-SVC-WEB"),
];

fn removed() -> RuleSet {
    with(&FRONTENDS.map(|rule| (rule, "")))
}

pub(super) fn rejected() -> RuleSet {
    let first = "-A KUBE-SERVICES -d 10.96.0.9/32";
    let rejected = format!("{REJECTED}{first}");
    let chain = ":KUBE-EXTERNAL-SERVICES - [0:0]\n:KUBE-FORWARD";
    let edits = [(first, rejected.as_str()), (":KUBE-FORWARD", chain)];
    with(&[&edits[..], &FRONTENDS.map(|rule| (rule, ""))].concat())
}

/// Checks that the text has that line, and the JSON the same policy.
#[track_caller]
fn check(live: &RuleSet, desired: &RuleSet, expected: &str, policy: &str) {
    let output = output(live, desired);
    assert!(output.contains(expected), "{output}");
    let document = json(
        &[compare(IpFamily::V4, live, desired)],
        &ManifestFacts::default(),
    );
    let effects = document["servicePorts"][0]["effects"].as_array().unwrap();
    let mut of_endpoints = effects.iter().filter(|one| one["kind"] == "endpoints");
    let of_node_port = of_endpoints.find(|one| one["entrances"][0]["port"] == 30080);
    assert_eq!(of_node_port.unwrap()["policy"], policy, "{document:#}");
}

#[test]
fn local_endpoints_have_policy_local_on_either_side() {
    let (cluster, local) = (with(&[]), with(&LOCAL));
    let added = "  *:30080/tcp: 0 -> 1 local endpoint, +10.4.0.2:8080\n";
    check(&removed(), &local, added, "Local");
    check(&rejected(), &local, added, "Local");
    let gone = "  *:30080/tcp: 1 -> 0 local endpoints, -10.4.0.2:8080\n";
    check(&local, &removed(), gone, "Local");
    check(&local, &rejected(), gone, "Local");
    // A policy that changes is that of the desired side.
    let fewer = "  *:30080/tcp: 2 -> 1 local endpoint, -10.4.0.1:8080\n";
    check(&cluster, &local, fewer, "Local");
    let more = "  *:30080/tcp: 1 -> 2 endpoints, +10.4.0.1:8080\n";
    check(&local, &cluster, more, "Cluster");
}
