//! Under which policy endpoints are said to answer, whichever side has the service port.

use super::super::json;
use super::{compare, told, with};
use crate::net::IpFamily;
use crate::rules::RuleSet;

const WAYS_IN: [&str; 2] = [
    "-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-WEB\n",
    "-A KUBE-NODEPORTS -p tcp -m comment --comment \"shop/web:http\" -m tcp --dport 30080 -j KUBE-EXT-WEB\n",
];

const REFUSED: &str = "-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http has no endpoints\" -m tcp --dport 80 -j REJECT\n\
    -A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment \"shop/web:http has no endpoints\" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j REJECT\n";

/// The external policy is Local, and one of the two endpoints is on this node.
const LOCAL: [(&str, &str); 2] = [
    (
        "-A KUBE-EXT-WEB -m comment --comment \"masquerade traffic for shop/web:http external destinations\" -j KUBE-MARK-MASQ\n-A KUBE-EXT-WEB -j KUBE-SVC-WEB\n",
        "-A KUBE-EXT-WEB -m comment --comment \"route LOCAL traffic for shop/web:http external destinations\" -m addrtype --src-type LOCAL -j KUBE-SVC-WEB\n\
         -A KUBE-EXT-WEB -j KUBE-SVL-WEB\n\
         -A KUBE-SVL-WEB -j KUBE-SEP-TWO\n",
    ),
    (":KUBE-SVC-WEB", ":KUBE-SVL-WEB - [0:0]\n:KUBE-SVC-WEB"),
];

fn gone() -> RuleSet {
    with(&WAYS_IN.map(|rule| (rule, "")))
}

fn refused() -> RuleSet {
    let first = "-A KUBE-SERVICES -d 10.96.0.9/32";
    let refused = format!("{REFUSED}{first}");
    let chain = ":KUBE-EXTERNAL-SERVICES - [0:0]\n:KUBE-FORWARD";
    let edits = [(first, refused.as_str()), (":KUBE-FORWARD", chain)];
    with(&[&edits[..], &WAYS_IN.map(|rule| (rule, ""))].concat())
}

/// The text has the line, and the document the same policy.
#[track_caller]
fn check(left: &RuleSet, right: &RuleSet, line: &str, policy: &str) {
    let said = told(left, right);
    assert!(said.contains(line), "{said}");
    let document = json(&[compare(IpFamily::V4, left, right)]);
    let effects = document["servicePorts"][0]["effects"].as_array().unwrap();
    let of_node_port = effects
        .iter()
        .find(|effect| effect["kind"] == "endpoints" && effect["entrances"][0]["port"] == 30080);
    assert_eq!(of_node_port.unwrap()["policy"], policy, "{document:#}");
}

#[test]
fn local_endpoints_are_local_on_either_side() {
    let (cluster, local) = (with(&[]), with(&LOCAL));
    let comes = "  *:30080/tcp: 0 -> 1 local endpoint, +10.4.0.2:8080\n";
    check(&gone(), &local, comes, "Local");
    check(&refused(), &local, comes, "Local");
    let goes = "  *:30080/tcp: 1 -> 0 local endpoints, -10.4.0.2:8080\n";
    check(&local, &gone(), goes, "Local");
    check(&local, &refused(), goes, "Local");
    // A policy that changes is the new one's.
    let fewer = "  *:30080/tcp: 2 -> 1 local endpoint, -10.4.0.1:8080\n";
    check(&cluster, &local, fewer, "Local");
    let more = "  *:30080/tcp: 1 -> 2 endpoints, +10.4.0.1:8080\n";
    check(&local, &cluster, more, "Cluster");
}
