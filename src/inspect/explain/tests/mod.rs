//! Queries as typed; `tests/explain` has the output of the command.

use super::{ClientSelection, NodeRules, PathResult, Query, SeenSource, explain};
use crate::net::IpFamily;
use crate::rules::RuleSet;

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
        (
            "prod/web/tcp",
            "`prod/web/tcp` is not a valid Service name; a protocol requires a port: `prod/web:80/tcp`",
        ),
        ("prod/web.1.2.3", "Some(\"prod\") prod/web.1.2.3"),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn nearly_valid_queries_are_rejected_with_a_reason() {
    for (text, expected) in [
        ("10.96.0.10:", "`` is not a valid port (1-65535)"),
        ("10.96.0.10:http", "`http` is not a valid port (1-65535)"),
        ("10.96.0.10:99999", "`99999` is not a valid port (1-65535)"),
        (
            "10.96.10.300",
            "`10.96.10.300` is not a valid IPv4 address: each octet must be 0-255",
        ),
        (
            "10.96.10.300:80/udp",
            "`10.96.10.300` is not a valid IPv4 address: each octet must be 0-255",
        ),
        (
            "10.96.0.10/80",
            "`10.96.0.10/80`: the port must follow a colon\nhint: use `10.96.0.10:80`",
        ),
        (
            "prod/web/http",
            "`prod/web/http` is not a valid Service name; a port follows a colon: `prod/web:http`",
        ),
        (
            "prod/web/80/udp",
            "`prod/web/80/udp` is not a valid Service name; a port follows a colon: `prod/web:80/udp`",
        ),
        ("10.96.0.10:0", "`0` is not a valid port (1-65535)"),
        (
            "[10.96.0.10x]:80",
            "`10.96.0.10x]:80` is not a valid IPv6 address in brackets",
        ),
        (
            "[fd00::1",
            "`fd00::1` is not a valid IPv6 address in brackets",
        ),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
    for text in [
        "",
        "/",
        "a/b/c/d",
        "a/b/",
        "prod/",
        "pr od/web",
        "web:",
        "a:b:c",
    ] {
        assert!(
            shown(text).contains("is not a valid address or Service name"),
            "{text}"
        );
    }
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
