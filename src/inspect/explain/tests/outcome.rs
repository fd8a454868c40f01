//! Outcomes of nodes that are configured alike, and of one that is not.

use super::*;
use crate::inspect::explain::{ClientSelection, NodeRules, explain};
use crate::net::IpFamily;
use crate::rules::RuleSet;

/// Rules of a node with this address, and these rules of `shop/web`, which is a NodePort as well.
fn saved(node: &str, of_service: &str) -> String {
    format!(
        "*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:KUBE-EXT-WEB - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SEP-API - [0:0]
:KUBE-SEP-WEB1 - [0:0]
:KUBE-SEP-WEB2 - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-API - [0:0]
:KUBE-SVC-WEB - [0:0]
:KUBE-SVL-WEB - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A OUTPUT -j KUBE-SERVICES
-A POSTROUTING -j KUBE-POSTROUTING
-A POSTROUTING -s 172.17.0.0/16 -j SNAT --to-source {node}
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MASQUERADE
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment \"default/kubernetes:https cluster IP\" -m tcp --dport 443 -j KUBE-SVC-API
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-WEB
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-NODEPORTS -p tcp -m comment --comment \"shop/web:http\" -m tcp --dport 30080 -j KUBE-EXT-WEB
-A KUBE-SVC-API ! -s 10.4.0.0/16 -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j KUBE-MARK-MASQ
-A KUBE-SVC-API -j KUBE-SEP-API
-A KUBE-SEP-API -s 192.168.0.1/32 -j KUBE-MARK-MASQ
-A KUBE-SEP-API -p tcp -m tcp -j DNAT --to-destination 192.168.0.1:6443
-A KUBE-SVC-WEB ! -s 10.4.0.0/16 -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SVC-WEB -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-WEB1
-A KUBE-SVC-WEB -j KUBE-SEP-WEB2
-A KUBE-SEP-WEB1 -p tcp -m tcp -j DNAT --to-destination 10.4.0.1:8080
-A KUBE-SEP-WEB2 -p tcp -m tcp -j DNAT --to-destination 10.4.1.2:8080
{of_service}COMMIT
"
    )
}

/// Rules for external traffic of policy Cluster.
const CLUSTER: &str = "-A KUBE-EXT-WEB -j KUBE-MARK-MASQ\n-A KUBE-EXT-WEB -j KUBE-SVC-WEB\n";

/// Returns lines of outcomes: `to from kinds: summary [endpoints]`.
fn outcomes_of(saved: &str, query: &str) -> Vec<String> {
    let rules = RuleSet::parse(saved).unwrap();
    let nodes = [NodeRules::new(&rules, IpFamily::V4, &[].into())];
    let query = query.parse().unwrap();
    let found = explain(&query, &nodes, &ClientSelection::All).unwrap();
    let outcomes = outcomes(&query, &found).into_iter();
    outcomes
        .map(|(packets, outcome)| {
            let (to, from) = (packets.to, client_kinds(&[packets.from]));
            let ClientOutcome { summary, endpoints } = outcome;
            let endpoints: Vec<_> = endpoints.iter().map(ToString::to_string).collect();
            format!("{to} from {from}: {summary} [{}]", endpoints.join(" "))
        })
        .collect()
}

#[test]
fn the_address_of_the_node_makes_no_difference() {
    for query in ["shop/web", "default/kubernetes", ":30080", "10.96.0.10"] {
        let one = outcomes_of(&saved("192.168.0.1", CLUSTER), query);
        let other = outcomes_of(&saved("192.168.0.2", CLUSTER), query);
        assert_eq!(one, other);
    }
    let all = outcomes_of(&saved("192.168.0.1", CLUSTER), "shop/web");
    let end = "2 endpoints answer [10.4.0.1:8080 10.4.1.2:8080]";
    let expected = ["10.96.0.10:80/tcp", ":30080/tcp"]
        .map(|to| ["a pod", "the node", "outside"].map(|from| format!("{to} from {from}: {end}")));
    assert_eq!(all, expected.concat());
}

#[test]
fn a_port_of_all_nodes_has_no_address() {
    let without = saved("192.168.0.1", "").replace(" --dport 30080", " --dport 30081");
    assert_eq!(
        outcomes_of(&without, ":30080")[1],
        ":30080/tcp from the node: delivered to the node []"
    );
}

#[test]
fn local_endpoints_make_no_difference() {
    let local = |endpoint: &str| {
        let rules = format!("-A KUBE-EXT-WEB -j KUBE-SVL-WEB\n-A KUBE-SVL-WEB -j {endpoint}\n");
        outcomes_of(&saved("192.168.0.1", &rules), ":30080")
    };
    assert_eq!(local("KUBE-SEP-WEB1"), local("KUBE-SEP-WEB2"));
    let without = "-A KUBE-EXT-WEB -j KUBE-SVL-WEB\nCOMMIT\n*filter\n:INPUT ACCEPT [0:0]\n\
                   :FORWARD ACCEPT [0:0]\n:KUBE-EXTERNAL-SERVICES - [0:0]\n\
                   -A INPUT -j KUBE-EXTERNAL-SERVICES\n-A KUBE-EXTERNAL-SERVICES -p tcp \
                   -m comment --comment \"shop/web:http has no local endpoints\" \
                   -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DROP\n";
    assert_eq!(
        outcomes_of(&saved("192.168.0.1", without), ":30080"),
        local("KUBE-SEP-WEB1")
    );
}

#[test]
fn other_endpoints_and_lost_jumps_make_one() {
    let good = saved("192.168.0.1", CLUSTER);
    let other = good.replace("10.4.1.2:8080", "10.4.1.3:8080");
    assert_ne!(
        outcomes_of(&good, "shop/web"),
        outcomes_of(&other, "shop/web")
    );
    let lost = good.replace("-A POSTROUTING -j KUBE-POSTROUTING\n", "");
    let lost = outcomes_of(&lost, "10.96.0.10");
    assert!(lost[1].contains("; broken: "), "{lost:?}");
    let unreachable = good.replace("-A PREROUTING -j KUBE-SERVICES\n", "");
    let unreachable = outcomes_of(&unreachable, "10.96.0.10");
    assert!(
        unreachable[0].contains("from a pod: routed normally: no jump from `PREROUTING`"),
        "{unreachable:?}"
    );
}
