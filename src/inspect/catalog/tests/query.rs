//! Patterns of names, the service ports that they match, and errors for those without a match.

use crate::inspect::catalog::query;
use crate::inspect::catalog::{NamePattern, NoMatch, PortName, PortQuery, UnknownRules};

fn port(name: &str, protocol: &str) -> PortName {
    PortName {
        name: name.into(),
        protocol: protocol.into(),
    }
}

#[track_caller]
fn check(text: &str, expected: bool) {
    let pattern: NamePattern = text.parse().unwrap();
    let fits = pattern.fits(&port("shop/web:http", "tcp"), [80, 30080]);
    assert_eq!(fits, expected, "{text}");
    assert_eq!(pattern.to_string(), text);
}

#[test]
fn a_pattern_matches_all_parts_that_it_has() {
    check("web", true);
    check("shop/web", true);
    check("shop/web:http", true);
    check("web:http", true);
    check("shop/web:80", true);
    check("shop/web:80/tcp", true);
    check("web:30080", true);
    check("shop/web:80/udp", false);
    check("shop/web:81", false);
    check("web:https", false);
    check("other/web", false);
    check("shop", false);
    // A namespace may have this name.
    check("svc/web", false);
}

#[test]
fn invalid_names_are_rejected_with_the_valid_form() {
    for text in [
        "",
        "/web",
        "shop/",
        "web:",
        ":http",
        "a/b/c/d",
        "a:b:c",
        "a b",
        "svc/a/b/c",
        "shop/web/tcp",
        "shop/web/53/udp",
    ] {
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
fn resource_names_of_kubectl_are_accepted() {
    let full: NamePattern = "svc/shop/web".parse().unwrap();
    assert_eq!(full.to_string(), "shop/web");
    for kind in ["svc", "service", "services"] {
        let typed: NamePattern = format!("{kind}/web").parse().unwrap();
        assert_eq!(typed.within("shop").unwrap().to_string(), "shop/web");
    }
    let other: NamePattern = "b/web".parse().unwrap();
    let error = other.within("a").unwrap_err().to_string();
    assert_eq!(
        error,
        "`b/web` is not in namespace `a`; leave one of the two out"
    );
}

#[track_caller]
fn without_match(text: &str, expected: &str) {
    let known = [
        (port("prod/web:http", "tcp"), vec![80]),
        (port("prod/web:admin", "tcp"), vec![8080]),
        (port("test/dns", "udp"), vec![53]),
    ];
    let known = known.iter().map(|(name, numbers)| (name, numbers.clone()));
    let error = NoMatch::of(&text.parse().unwrap(), &known, UnknownRules::default());
    let error = error.map(|error| error.to_string());
    assert_eq!(error.unwrap_or_default(), expected, "{text}");
}

#[test]
fn names_without_a_match_come_with_suggestions() {
    without_match("prod/web", "");
    without_match("web:8080", "");
    without_match(
        "prod/wbe",
        "no Service `prod/wbe` has rules\nhint: did you mean `prod/web`?\n\
         hint: headless Services and those of type ExternalName have no rules",
    );
    without_match(
        "prod/dns",
        "no Service `prod/dns` has rules\nhint: did you mean `test/dns`?\n\
         hint: headless Services and those of type ExternalName have no rules",
    );
    without_match(
        "web:81",
        "`web:81` has no such port\n\
         hint: did you mean one of `prod/web:admin/tcp`, `prod/web:http/tcp`?",
    );
    // A port without a name is suggested by its number.
    without_match(
        "dns:53/tcp",
        "`dns:53/tcp` has no such port\nhint: did you mean `test/dns:53/udp`?",
    );
    without_match(
        "storefront",
        "no Service `storefront` has rules\nhint: run `deltaproxy services` to list Services \
         with rules\nhint: headless Services and those of type ExternalName have no rules",
    );
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

#[track_caller]
fn unknown_namespace(namespace: &str, known: &[&str], expected: Option<&str>) {
    let known: Vec<PortName> = known.iter().map(|name| port(name, "tcp")).collect();
    let error = query::unknown_namespace(namespace, known.iter());
    let prefix = format!("no Service of namespace `{namespace}` has rules\nhint: ");
    assert_eq!(error, expected.map(|hint| format!("{prefix}{hint}")));
}

#[test]
fn an_unknown_namespace_comes_with_suggestions() {
    let check = unknown_namespace;
    check("shop", &["shop/web"], None);
    check("shop", &[], None);
    check(
        "zoo",
        &["bank/x", "shop/b"],
        Some("namespaces with rules: `bank`, `shop`"),
    );
    check("zoo", &["bank/x"], Some("namespaces with rules: `bank`"));
    let many = ["u/x", "v/x", "w/x", "x/x", "y/x", "z/x"];
    check(
        "prod",
        &many,
        Some("namespaces with rules: `u`, `v`, `w`, `x`, `y` and 1 more"),
    );
}
