//! Patterns of names, the service ports that they match, and errors for those without a match.

use crate::inspect::catalog::query;
use crate::inspect::catalog::{NamePattern, NoMatch, PortName, PortQuery, UnknownRules};

fn port(name: &str, protocol: &str) -> PortName {
    PortName {
        name: name.into(),
        protocol: protocol.into(),
    }
}

#[test]
fn a_pattern_matches_all_parts_that_it_has() {
    let port = port("shop/web:http", "tcp");
    for (text, expected) in [
        ("shop/web:80/tcp", true),
        ("shop/web:80/udp", false),
        ("shop/web:81", false),
        ("web:https", false),
        ("other/web", false),
        ("shop", false),
        // A namespace may have this name.
        ("svc/web", false),
    ] {
        let pattern: NamePattern = text.parse().unwrap();
        assert_eq!(pattern.fits(&port, [80, 30080]), expected, "{text}");
    }
}

#[test]
fn invalid_names_are_rejected_with_the_valid_form() {
    let texts = "|/web|shop/|web:|:http|a/b/c/d|a:b:c|a b|svc/a/b/c|shop/web/tcp|shop/web/53/udp";
    for text in texts.split('|') {
        let error = text.parse::<NamePattern>().unwrap_err().to_string();
        let form = "is not a valid Service name; use `web`";
        assert!(error.contains(form), "{text}: {error}");
    }
    let error = "shop/web:80/icmp".parse::<NamePattern>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown protocol `icmp`: must be tcp, udp or sctp"
    );
}

#[test]
fn ports_without_a_match_come_with_suggestions() {
    let known = [
        (port("prod/web:http", "tcp"), vec![80]),
        (port("prod/web:admin", "tcp"), vec![8080]),
        (port("test/dns", "udp"), vec![53]),
    ];
    let known = known.iter().map(|(name, numbers)| (name, numbers.clone()));
    for (text, expected) in [
        ("web:81", "one of `prod/web:admin/tcp`, `prod/web:http/tcp`"),
        // A port without a name is suggested by its number.
        ("dns:53/tcp", "`test/dns:53/udp`"),
    ] {
        let error = NoMatch::of(&text.parse().unwrap(), &known, UnknownRules::default());
        let expected = format!("`{text}` has no such port\nhint: did you mean {expected}?");
        assert_eq!(error.unwrap().to_string(), expected);
    }
}

#[test]
fn a_query_matches_names_within_its_namespace() {
    let names = ["web".parse().unwrap(), "dns".parse().unwrap()];
    let query = PortQuery::new(&names, Some("shop")).unwrap();
    assert!(query.fits(&port("shop/dns", "udp"), &[53]));
    assert!(!query.fits(&port("prod/dns", "udp"), &[53]));
    assert!(!query.fits(&port("shop/api", "tcp"), &[80]));
    let all = PortQuery::new(&[], Some("shop")).unwrap();
    assert!(all.fits(&port("shop/api", "tcp"), &[80]) && !all.is_all());
}

#[test]
fn an_unknown_namespace_comes_with_suggestions() {
    let known = ["u/x", "v/x", "w/x", "x/x", "y/x", "z/x"].map(|name| port(name, "tcp"));
    assert_eq!(query::unknown_namespace("u", known.iter()), None);
    assert_eq!(query::unknown_namespace("u", [].iter()), None);
    let error = query::unknown_namespace("prod", known.iter()).unwrap();
    let hint = "hint: namespaces with rules: `u`, `v`, `w`, `x`, `y` and 1 more";
    assert!(error.ends_with(hint), "{error}");
}
