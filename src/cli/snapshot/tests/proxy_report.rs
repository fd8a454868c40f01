//! Tests of `proxy_report`.

use super::*;

/// Returns a body with one lost declaration, in which a text is replaced.
fn body(from: &str, to: &str) -> String {
    r#"{"status":{"IPv4":{"healthy":true},"IPv6":{"healthy":true,"frontendConflicts":{
        "count":12,"lost":[{"service":"shop/thief","portName":"http","kind":"ExternalIP",
        "ip":"fd00::1","port":80,"protocol":"tcp","owner":"shop/web"}]}}}}"#
        .replace(from, to)
}

#[test]
fn a_report_of_the_proxy_is_read() {
    let found = conflicts_in(&body("", ""));
    assert_eq!(found.v4, Conflicts::default());
    assert_eq!(found.v6.count, 12);
    let [conflict] = &found.v6.lost[..] else {
        panic!("{found:?}");
    };
    let shown = format!("{conflict} {} {}", conflict.loser, conflict.owner);
    assert_eq!(shown, "[fd00::1]:80/tcp shop/thief:http/tcp shop/web");
    assert_eq!(conflict.kind, FrontendKind::ExternalIp);
    let node_port = conflicts_in(&body("\"fd00::1\"", "null"));
    assert_eq!(node_port.v6.lost[0].to_string(), "*:80/tcp");
}

#[test]
fn an_invalid_report_has_no_conflicts() {
    for (from, to) in [
        ("shop/thief", "\\u001b[2J"),
        ("shop/web", ""),
        ("http", "a b"),
        ("ExternalIP", "Other"),
        ("fd00::1", "fd00"),
        ("\"port\":80", "\"port\":65536"),
        ("tcp", "icmp"),
        ("\"lost\"", "\"found\""),
        ("frontendConflicts", "quarantinedServices"),
        ("{", ""),
    ] {
        assert_eq!(conflicts_in(&body(from, to)).v6.lost, [], "{to}");
    }
}

#[test]
fn services_in_quarantine_are_read() {
    let json = r#"{"status":{
        "IPv4":{"healthy":true,"quarantinedServices":{"count":3,"names":["shop/a","\u001b[2J"]}},
        "IPv6":{"healthy":true}}}"#;
    let found = quarantined_in(json);
    assert_eq!(
        (found.v4.count, &found.v4.names[..]),
        (3, &["shop/a".to_owned()][..])
    );
    assert!(found.v4.has(("shop", "a")) && !found.v4.has(("shop", "b")));
    assert_eq!(found.v6, ServiceNames::default());
    for invalid in [
        "",
        "not found",
        "[1]",
        r#"{"status":{"IPv4":{"quarantinedServices":[]}}}"#,
    ] {
        assert_eq!(
            quarantined_in(invalid).v4,
            ServiceNames::default(),
            "{invalid}"
        );
    }
}
