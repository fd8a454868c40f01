//! Conntrack entries of UDP clients that no rule decides anymore.

use super::{ClientSelection, Detail, NodeRules, SAVED, assert_contains, explain, text};
use crate::net::IpFamily;
use crate::rules::RuleSet;

/// Explains a destination of a UDP Service with one endpoint, with these conntrack entries.
fn explained(query: &str, replies_from: &[&str]) -> String {
    let saved = SAVED.replace(
        "COMMIT\n",
        "-A KUBE-SERVICES -d 10.96.0.53/32 -p udp -m comment --comment \"shop/dns:dns cluster IP\" \
         -m udp --dport 53 -j KUBE-SVC-DNS\n\
         -A KUBE-SVC-DNS -j KUBE-SEP-DNS1\n\
         -A KUBE-SEP-DNS1 -p udp -m udp -j DNAT --to-destination 10.4.0.1:8080\n\
         COMMIT\n",
    );
    let saved = saved.replace(
        ":KUBE-SVC-WEB - [0:0]\n",
        ":KUBE-SEP-DNS1 - [0:0]\n:KUBE-SVC-DNS - [0:0]\n:KUBE-SVC-WEB - [0:0]\n",
    );
    let rules = RuleSet::parse(&saved).unwrap();
    let nodes = [NodeRules::new(&rules, IpFamily::V4, &[].into())];
    let mut found = explain(&query.parse().unwrap(), &nodes, &ClientSelection::All).unwrap();
    for explanation in &mut found {
        for address in replies_from {
            if explanation.udp_frontend().is_some() {
                explanation.add_flow(address.parse().unwrap());
            }
        }
    }
    anstream::adapter::strip_str(&text(&found, Detail::Short)).to_string()
}

#[test]
fn entries_to_addresses_that_are_no_endpoints_are_stale() {
    let shown = explained("shop/dns", &["10.4.0.1:8080", "10.4.0.9:8080"]);
    assert_contains(
        &shown,
        &[
            "stale: conntrack sends UDP clients to 10.4.0.9:8080, which is not an endpoint in the \
             rules, unless it is terminating\n",
            "hint: `conntrack -D -p udp --orig-dst 10.96.0.53 --orig-port-dst 53 --reply-src \
             10.4.0.9` deletes these entries\n",
        ],
    );
    assert_eq!(shown.matches("stale: ").count(), 1, "{shown}");
}

#[test]
fn only_destinations_of_udp_services_have_stale_entries() {
    for query in ["shop/web", "10.4.0.1:8080"] {
        let shown = explained(query, &["10.4.0.9:8080"]);
        assert!(!shown.contains("stale"), "{shown}");
    }
}
