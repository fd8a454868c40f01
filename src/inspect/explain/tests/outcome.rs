//! Outcomes of nodes that are configured alike, and of one that is not.

use super::*;
use crate::inspect::explain::tests::SAVED;
use crate::inspect::explain::{ClientSelection, NodeRules, explain};
use crate::net::IpFamily;
use crate::rules::RuleSet;

/// Rules of a node with this address, and these rules of `shop/web`, which is a NodePort as well.
fn saved(node: &str, of_service: &str) -> String {
    let snat = format!("-A POSTROUTING -s 172.17.0.0/16 -j SNAT --to-source {node}\n");
    let local = ":KUBE-SVC-WEB - [0:0]\n:KUBE-SVL-WEB - [0:0]\n";
    SAVED
        .replace(":KUBE-SVC-WEB - [0:0]\n", local)
        .replace(CLUSTER, "")
        .replace("COMMIT\n", &format!("{snat}{of_service}COMMIT\n"))
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
        let [one, other] = ["192.168.0.7", "192.168.0.2"].map(|node| {
            let outcomes = outcomes_of(&saved(node, CLUSTER), query);
            outcomes.into_iter().collect::<BTreeSet<_>>()
        });
        assert_eq!(one, other);
    }
    let all = outcomes_of(&saved("192.168.0.7", CLUSTER), "shop/web");
    let end = "3 endpoints answer [10.4.0.1:8080 10.4.0.2:8080 10.4.1.3:8080]";
    let expected = ["10.96.0.10:80/tcp", ":30080/tcp"]
        .map(|to| ["a pod", "the node", "outside"].map(|from| format!("{to} from {from}: {end}")));
    assert_eq!(all, expected.concat());
}

#[test]
fn a_port_of_all_nodes_has_no_address() {
    let without = saved("192.168.0.7", "").replace(" --dport 30080", " --dport 30081");
    assert_eq!(
        outcomes_of(&without, ":30080")[1],
        ":30080/tcp from the node: delivered to the node []"
    );
}

#[test]
fn local_endpoints_make_no_difference() {
    let local = |endpoint: &str| {
        let rules = format!("-A KUBE-EXT-WEB -j KUBE-SVL-WEB\n-A KUBE-SVL-WEB -j {endpoint}\n");
        outcomes_of(&saved("192.168.0.7", &rules), ":30080")
    };
    assert_eq!(local("KUBE-SEP-WEB1"), local("KUBE-SEP-WEB2"));
    let without = "-A KUBE-EXT-WEB -j KUBE-SVL-WEB\nCOMMIT\n*filter\n:INPUT ACCEPT [0:0]\n\
                   :FORWARD ACCEPT [0:0]\n:KUBE-EXTERNAL-SERVICES - [0:0]\n\
                   -A INPUT -j KUBE-EXTERNAL-SERVICES\n-A KUBE-EXTERNAL-SERVICES -p tcp \
                   -m comment --comment \"shop/web:http has no local endpoints\" \
                   -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DROP\n";
    assert_eq!(
        outcomes_of(&saved("192.168.0.7", without), ":30080"),
        local("KUBE-SEP-WEB1")
    );
}

#[test]
fn other_endpoints_and_lost_jumps_make_one() {
    let good = saved("192.168.0.7", CLUSTER);
    let other = good.replace("10.4.1.3:8080", "10.4.1.4:8080");
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
