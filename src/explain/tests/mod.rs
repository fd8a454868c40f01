//! Questions as typed; what comes of them is in `tests/explain`.

use super::question::Question;
use super::{Fate, Node, Sees, Wanted, explain};
use crate::net::IpFamily;
use crate::rules::RuleSet;

fn shown(text: &str) -> String {
    match text.parse() {
        Ok(Question::Address(asked)) => {
            let ip = asked.ip.map_or("any".to_owned(), |ip| ip.to_string());
            let port = asked.port.map_or("any".to_owned(), |port| port.to_string());
            let protocol = asked.protocol.map_or("any", |protocol| protocol.as_str());
            format!("{ip} {port} {protocol}")
        }
        Ok(Question::Name(name)) => format!("{:?} {name}", name.namespace),
        Err(why) => why.to_string(),
    }
}

#[test]
fn questions() {
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
fn what_is_almost_a_question() {
    for (text, expected) in [
        ("10.96.0.10:", "`` is no port: 1 to 65535"),
        ("10.96.0.10:http", "`http` is no port: 1 to 65535"),
        ("10.96.0.10:99999", "`99999` is no port: 1 to 65535"),
        (
            "10.96.10.300",
            "`10.96.10.300` is no address: each of its four numbers is from 0 to 255",
        ),
        (
            "10.96.10.300:80/udp",
            "`10.96.10.300` is no address: each of its four numbers is from 0 to 255",
        ),
        (
            "10.96.0.10/80",
            "`10.96.0.10/80` has a port behind a slash\nhint: it follows a colon: `10.96.0.10:80`",
        ),
        (
            "prod/web/http",
            "`prod/web/http` is not a valid Service name; a port follows a colon: `prod/web:http`",
        ),
        (
            "prod/web/80/udp",
            "`prod/web/80/udp` is not a valid Service name; a port follows a colon: `prod/web:80/udp`",
        ),
        ("10.96.0.10:0", "`0` is no port: 1 to 65535"),
        (
            "[10.96.0.10x]:80",
            "`10.96.0.10x]:80` is no address of IPv6 in brackets",
        ),
        ("[fd00::1", "`fd00::1` is no address of IPv6 in brackets"),
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
        assert!(shown(text).contains("is neither an address nor"), "{text}");
    }
}

#[test]
fn only_names_are_in_namespaces() {
    let within = |text: &str| {
        let question: Question = text.parse().unwrap();
        match question.within("prod") {
            Ok(Question::Name(name)) => name.to_string(),
            Ok(Question::Address(_)) => panic!("{text}"),
            Err(why) => why.to_string(),
        }
    };
    assert_eq!(within("web:80"), "prod/web:80");
    assert_eq!(within("svc/web"), "prod/web");
    let other = "`test/web` is not in namespace `prod`; leave one of the two out";
    assert_eq!(within("test/web"), other);
    let address = "an address is in no namespace; leave it out";
    assert_eq!(within("10.96.0.10:80"), address);
    assert_eq!(within(":30080"), address);
}

#[test]
fn another_source_is_named() {
    for (to, expected) in [
        ("10.9.9.9 --random-fully", Some("10.9.9.9")),
        ("10.9.9.9:1024-2048", Some("10.9.9.9")),
        ("10.9.9.1-10.9.9.9", None),
    ] {
        let text = format!("*nat\n-A POSTROUTING -j SNAT --to-source {to}\nCOMMIT\n");
        let rules = RuleSet::parse(&text).unwrap();
        let nodes = [Node::new(&rules, IpFamily::V4, &[].into())];
        let question = "10.96.0.10:80".parse().unwrap();
        let found = explain(&question, &nodes, &Wanted::All).unwrap();
        let Fate::Passed { sees, .. } = &found[0].ways[0].ends[0].fate else {
            panic!("{found:?}");
        };
        let expected = expected.map(|ip| ip.parse().unwrap());
        assert_eq!(*sees, Sees::Other(expected), "{to}");
    }
}
