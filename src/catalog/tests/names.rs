//! Names as typed, and what they fit.

use crate::catalog::{Asked, NamePattern, NoSuch, PortName};

fn port(name: &str, protocol: &str) -> PortName {
    PortName {
        name: name.into(),
        protocol: protocol.into(),
    }
}

#[track_caller]
fn check(asked: &str, expected: bool) {
    let pattern: NamePattern = asked.parse().unwrap();
    let fits = pattern.fits(&port("shop/web:http", "tcp"), [80, 30080]);
    assert_eq!(fits, expected, "{asked}");
    assert_eq!(pattern.to_string(), asked);
}

#[test]
fn services_are_named_in_full_or_in_part() {
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
    // A namespace may be called so.
    check("svc/web", false);
}

#[test]
fn what_no_service_can_be_called_is_refused_with_the_right_form() {
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
    ] {
        let said = text.parse::<NamePattern>().unwrap_err().to_string();
        assert!(said.contains("is no name; use `web`"), "{text}: {said}");
    }
    for (text, expected) in [
        (
            "shop/web/tcp",
            "`shop/web/tcp` is no name; a protocol comes behind a port: `shop/web:80/tcp`",
        ),
        (
            "shop/web/http",
            "`shop/web/http` is no name; a port comes behind a colon: `shop/web:http`",
        ),
        (
            "shop/web/53/udp",
            "`shop/web/53/udp` is no name; a port comes behind a colon: `shop/web:53/udp`",
        ),
        (
            "shop/web:80/icmp",
            "`icmp` is no protocol; it is one of tcp, udp and sctp",
        ),
    ] {
        let said = text.parse::<NamePattern>().unwrap_err().to_string();
        assert_eq!(said, expected);
    }
}

#[test]
fn the_forms_of_kubectl_are_understood() {
    let full: NamePattern = "svc/shop/web".parse().unwrap();
    assert_eq!(full.to_string(), "shop/web");
    for kind in ["svc", "service", "services"] {
        let typed: NamePattern = format!("{kind}/web").parse().unwrap();
        assert_eq!(typed.within("shop").unwrap().to_string(), "shop/web");
    }
    let other: NamePattern = "b/web".parse().unwrap();
    let said = other.within("a").unwrap_err().to_string();
    assert_eq!(
        said,
        "`b/web` is not in namespace `a`; leave one of the two out"
    );
}

#[track_caller]
fn missing(asked: &str, expected: &str) {
    let known = [
        (port("prod/web:http", "tcp"), vec![80]),
        (port("prod/web:admin", "tcp"), vec![8080]),
        (port("test/dns", "udp"), vec![53]),
    ];
    let known = known.iter().map(|(name, numbers)| (name, numbers.clone()));
    let said = NoSuch::of(&asked.parse().unwrap(), &known).map(|said| said.to_string());
    assert_eq!(said.unwrap_or_default(), expected, "{asked}");
}

#[test]
fn names_that_fit_nothing_come_with_those_that_are_near() {
    missing("prod/web", "");
    missing("web:8080", "");
    missing(
        "prod/wbe",
        "no Service `prod/wbe` has rules\nhint: is `prod/web` meant?",
    );
    missing(
        "prod/dns",
        "no Service `prod/dns` has rules\nhint: is `test/dns` meant?",
    );
    missing(
        "svc/web",
        "no Service `svc/web` has rules\nhint: is `prod/web` meant?\n\
         hint: `svc/` is read as a namespace; leave it out",
    );
    missing(
        "dns/udp",
        "no Service `dns/udp` has rules\nhint: `deltaproxy services` lists those that have; \
         headless ones and ExternalName never do\n\
         hint: a protocol comes behind a port: `dns:80/udp`",
    );
    missing(
        "web:81",
        "`web:81` has no such port\n\
         hint: is one of `prod/web:admin/tcp`, `prod/web:http/tcp` meant?",
    );
    // A port without a name is asked for by its number.
    missing(
        "dns:53/tcp",
        "`dns:53/tcp` has no such port\nhint: is `test/dns:53/udp` meant?",
    );
    missing(
        "storefront",
        "no Service `storefront` has rules\nhint: `deltaproxy services` lists those that have; \
         headless ones and ExternalName never do",
    );
}

#[test]
fn a_namespace_and_names_say_together_what_is_meant() {
    let names = ["web".parse().unwrap(), "dns".parse().unwrap()];
    let asked = Asked::new(&names, Some("shop")).unwrap();
    assert!(asked.fits(&port("shop/dns", "udp"), &[53]));
    assert!(!asked.fits(&port("prod/dns", "udp"), &[53]));
    assert!(!asked.fits(&port("shop/api", "tcp"), &[80]));
    let all = Asked::new(&[], Some("shop")).unwrap();
    assert!(all.fits(&port("shop/api", "tcp"), &[80]) && !all.is_all());
}
