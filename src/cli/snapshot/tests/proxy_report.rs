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
    let found = of_body(&body("", ""));
    assert_eq!(found.v4, Conflicts::default());
    assert_eq!(found.v6.count, 12);
    let [conflict] = &found.v6.lost[..] else {
        panic!("{found:?}");
    };
    let shown = format!("{conflict} {} {}", conflict.loser, conflict.owner);
    assert_eq!(shown, "[fd00::1]:80/tcp shop/thief:http/tcp shop/web");
    assert_eq!(conflict.kind, FrontendKind::ExternalIp);
    let node_port = of_body(&body("\"fd00::1\"", "null"));
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
        assert_eq!(of_body(&body(from, to)).v6.lost, [], "{to}");
    }
}
