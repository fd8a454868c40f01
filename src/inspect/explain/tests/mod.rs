//! Queries as typed; `tests/explain` has the output of the command.

mod broken;
mod graph;
mod replies;
mod stale_flows;
mod traversed;

use super::{ClientSelection, Detail, NodeRules, PathResult, Query, SeenSource, explain, text};
use crate::net::IpFamily;
use crate::rules::RuleSet;

/// Rules of a node with three endpoints of `shop/web` and the API server on the host's network.
pub(super) const SAVED: &str = "\
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-EXT-WEB - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SEP-API - [0:0]
:KUBE-SEP-WEB1 - [0:0]
:KUBE-SEP-WEB2 - [0:0]
:KUBE-SEP-WEB3 - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-API - [0:0]
:KUBE-SVC-WEB - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A OUTPUT -j KUBE-SERVICES
-A POSTROUTING -j KUBE-POSTROUTING
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MASQUERADE
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment \"default/kubernetes:https cluster IP\" -m tcp --dport 443 -j KUBE-SVC-API
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"shop/web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-WEB
-A KUBE-SERVICES -d 192.168.0.9/32 -p tcp -m comment --comment \"default/kubernetes:https external IP\" -m tcp --dport 443 -j KUBE-SVC-API
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-NODEPORTS -p tcp -m comment --comment \"shop/web:http\" -m tcp --dport 30080 -j KUBE-EXT-WEB
-A KUBE-EXT-WEB -j KUBE-MARK-MASQ
-A KUBE-EXT-WEB -j KUBE-SVC-WEB
-A KUBE-SVC-API ! -s 10.4.0.0/16 -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j KUBE-MARK-MASQ
-A KUBE-SVC-API -j KUBE-SEP-API
-A KUBE-SVC-WEB ! -s 10.4.0.0/16 -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SVC-WEB -m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-WEB1
-A KUBE-SVC-WEB -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-WEB2
-A KUBE-SVC-WEB -j KUBE-SEP-WEB3
-A KUBE-SEP-API -s 192.168.0.7/32 -j KUBE-MARK-MASQ
-A KUBE-SEP-API -p tcp -m tcp -j DNAT --to-destination 192.168.0.7:6443
-A KUBE-SEP-WEB1 -p tcp -m tcp -j DNAT --to-destination 10.4.0.1:8080
-A KUBE-SEP-WEB2 -p tcp -m tcp -j DNAT --to-destination 10.4.0.2:8080
-A KUBE-SEP-WEB3 -p tcp -m tcp -j DNAT --to-destination 10.4.1.3:8080
COMMIT
";

/// Returns the text of an explanation, without the node's addresses.
fn explained(saved: &str, query: &str) -> String {
    rendered(saved, query, |all| text(all, Detail::Short))
}

fn rendered(
    saved: &str,
    query: &str,
    render: impl Fn(&[super::explanation::Explanation<'_>]) -> String,
) -> String {
    let rules = RuleSet::parse(saved).unwrap();
    let nodes = [NodeRules::new(&rules, IpFamily::V4, &[].into())];
    let found = explain(&query.parse().unwrap(), &nodes, &ClientSelection::All).unwrap();
    anstream::adapter::strip_str(&render(&found)).to_string()
}

#[track_caller]
fn assert_contains(text: &str, expected: &[&str]) {
    for part in expected {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

fn shown(text: &str) -> String {
    match text.parse() {
        Ok(Query::Address(query)) => {
            let ip = query.ip.map_or("any".to_owned(), |ip| ip.to_string());
            let port = query.port.map_or("any".to_owned(), |port| port.to_string());
            let protocol = query.protocol.map_or("any", |protocol| protocol.as_str());
            format!("{ip} {port} {protocol}")
        }
        Ok(Query::Name(name)) => format!("{:?} {name}", name.namespace),
        Err(why) => why.to_string(),
    }
}

#[test]
fn queries_are_parsed() {
    for (text, expected) in [
        ("10.96.0.10:80", "10.96.0.10 80 any"),
        ("10.96.0.10:80/TCP", "10.96.0.10 80 tcp"),
        ("010.096.0.10", "10.96.0.10 any any"),
        ("[fd00::1]:53/udp", "fd00::1 53 udp"),
        ("[fd00::1]", "fd00::1 any any"),
        ("fd00::1", "fd00::1 any any"),
        ("fd00::1/sctp", "fd00::1 any sctp"),
        (":30080", "any 30080 any"),
        (":30080/udp", "any 30080 udp"),
        ("prod/web:http", "Some(\"prod\") prod/web:http"),
        ("prod/web", "Some(\"prod\") prod/web"),
        ("prod/web:http/udp", "Some(\"prod\") prod/web:http/udp"),
        ("web:80", "None web:80"),
        ("web/udp", "Some(\"web\") web/udp"),
        ("svc/prod/web", "Some(\"prod\") prod/web"),
        ("prod/web.1.2.3", "Some(\"prod\") prod/web.1.2.3"),
        ("web.prod", "Some(\"prod\") prod/web"),
        ("web.prod.svc:http", "Some(\"prod\") prod/web:http"),
        (
            "web.prod.svc.cluster.local.:53/udp",
            "Some(\"prod\") prod/web:53/udp",
        ),
        ("http://10.96.0.10:8080/x?y#z", "10.96.0.10 8080 tcp"),
        ("https://10.96.0.10", "10.96.0.10 443 tcp"),
        ("http://user@[fd00::1]/", "fd00::1 80 tcp"),
        ("udp://10.96.0.10:53", "10.96.0.10 53 udp"),
        ("http://web/", "None web:80/tcp"),
        (
            "https://web.prod.svc.cluster.local/x",
            "Some(\"prod\") prod/web:443/tcp",
        ),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn invalid_queries_are_rejected_with_a_reason() {
    for (text, expected) in [
        ("10.96.0.10:", "`` is not a valid port (1-65535)"),
        ("10.96.0.10:http", "`http` is not a valid port (1-65535)"),
        ("10.96.0.10:99999", "`99999` is not a valid port (1-65535)"),
        ("10.96.0.10:0", "`0` is not a valid port (1-65535)"),
        (
            "prod/web:53/icmp",
            "unknown protocol `icmp`: must be tcp, udp or sctp",
        ),
        (
            "[fd00::1]53",
            "`[fd00::1]53` is not a valid address or Service name\n\
             hint: examples are 10.96.0.10:80, [fd00::1]:53/udp, prod/web:http and \
             http://web.prod.svc",
        ),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
    let texts = "|/|a/b/c/d|a/b/|prod/|pr od/web|web:|a:b:c|web.example.com|\
                 https://web.example.com/|grpc://10.96.0.10|http://|://web|web..svc|10.96.0|\
                 10.96.10.300:80/udp|10.96.0.10/80|prod/web/http|prod/web/80/udp|[10.96.0.10x]:80|\
                 [fd00::1";
    for text in texts.split('|') {
        assert!(
            shown(text).contains("is not a valid address or Service name"),
            "{text}"
        );
    }
}

#[test]
fn a_port_follows_a_destination_without_one() {
    let with_port = |text: &str, port| match text.parse::<Query>().unwrap().with_port(port) {
        Ok(query) => format!("{query:?}"),
        Err(why) => why.to_string(),
    };
    for (text, port, whole) in [
        ("web", "http", "web:http"),
        ("prod/web", "53/udp", "prod/web:53/udp"),
        ("web.prod.svc", "80", "web.prod.svc:80"),
        ("10.96.0.10", "80", "10.96.0.10:80"),
        ("fd00::1/udp", "53", "[fd00::1]:53/udp"),
    ] {
        let query: Query = whole.parse().unwrap();
        assert_eq!(with_port(text, port), format!("{query:?}"), "{whole}");
    }
    for text in ["web:80", "10.96.0.10:80", ":80", "http://web"] {
        let expected = "`80` is not needed: the destination has a port";
        assert_eq!(with_port(text, "80"), expected, "{text}");
    }
    assert_eq!(
        with_port("10.96.0.10", "http"),
        "`http` is not a valid port (1-65535)"
    );
    assert!(with_port("web", "a b").starts_with("`a b` is not a valid"));
}

#[test]
fn only_names_can_be_limited_to_a_namespace() {
    let within = |text: &str| {
        let query: Query = text.parse().unwrap();
        match query.within("prod") {
            Ok(Query::Name(name)) => name.to_string(),
            Ok(Query::Address(_)) => panic!("{text}"),
            Err(why) => why.to_string(),
        }
    };
    assert_eq!(within("web:80"), "prod/web:80");
    assert_eq!(within("svc/web"), "prod/web");
    let other = "`test/web` is not in namespace `prod`; leave one of the two out";
    assert_eq!(within("test/web"), other);
    let address = "an address has no namespace\nhint: leave --namespace out";
    assert_eq!(within("10.96.0.10:80"), address);
    assert_eq!(within(":30080"), address);
}

#[test]
fn assumed_addresses_are_marked_in_json() {
    let document = rendered(SAVED, ":30080", |all| super::json(all).to_string());
    assert_contains(&document, &["\"addressAssumed\":true"]);
    assert_eq!(document.matches("\"assumed\":true").count(), 3);
}

#[test]
fn an_snat_address_is_reported_as_source() {
    for (to, expected) in [
        ("10.9.9.9 --random-fully", Some("10.9.9.9")),
        ("10.9.9.9:1024-2048", Some("10.9.9.9")),
        ("10.9.9.1-10.9.9.9", None),
    ] {
        let text = format!("*nat\n-A POSTROUTING -j SNAT --to-source {to}\nCOMMIT\n");
        let rules = RuleSet::parse(&text).unwrap();
        let nodes = [NodeRules::new(&rules, IpFamily::V4, &[].into())];
        let query = "10.96.0.10:80".parse().unwrap();
        let found = explain(&query, &nodes, &ClientSelection::All).unwrap();
        let PathResult::Passed { source, .. } = &found[0].paths[0].branches[0].result else {
            panic!("{found:?}");
        };
        let expected = expected.map(|ip| ip.parse().unwrap());
        assert_eq!(*source, SeenSource::Other(expected), "{to}");
    }
}
