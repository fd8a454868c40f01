//! Tests of `service_chain`. Scenarios have the names that kube-proxy gives to chains.

use super::super::shared_chains::NODE_PORTS_COMMENT;
use super::*;

#[test]
fn names_are_written_and_sorted_as_they_are_shown() {
    for kind in ChainKind::ALL {
        let hash = *b"0123456789";
        let chain = ServiceChain { kind, hash };
        let mut written = Vec::new();
        chain.write(&mut written);
        assert_eq!(written, chain.name().into_bytes());
        let key = chain.sort_key();
        assert_eq!(key.split(|byte| *byte == 0).next(), Some(&*written));
    }
}

#[test]
fn service_chains_are_recognized_by_prefix() {
    for ours in [
        "KUBE-SVC-A",
        "KUBE-SVL-A",
        "KUBE-EXT-A",
        "KUBE-FW-A",
        "KUBE-SEP-A",
        "KUBE-XLB-A",
    ] {
        assert!(is_service_chain(ours), "{ours}");
    }
    for other in [
        "KUBE-SERVICES",
        "KUBE-MARK-MASQ",
        "KUBE-KUBELET-CANARY",
        "KUBE-FIREWALL",
        "cali-KUBE-SVC-",
    ] {
        assert!(!is_service_chain(other), "{other}");
    }
}

#[test]
fn comments_parse_to_the_template_that_wrote_them() {
    let chain = ServiceChain::parse("KUBE-FW-XPGD46QRK7WJZT7O");
    let chains = chain.map(PortComment::NotAccepted);
    assert!(chains.is_some());
    for comment in PortComment::PLAIN.into_iter().chain(chains) {
        let text = comment.for_port("shop/web:http").to_string();
        let parsed = PortComment::parse(&text);
        assert_eq!(parsed, Some((comment, "shop/web:http")), "{text}");
    }
}

#[test]
fn comments_of_older_releases_are_parsed() {
    for (text, expected) in [
        (
            "route LOCAL traffic for shop/web LB IP to service chain",
            PortComment::RouteNode,
        ),
        (
            "masquerade LOCAL traffic for shop/web LB IP",
            PortComment::MasqueradeNode,
        ),
    ] {
        assert_eq!(PortComment::parse(text), Some((expected, "shop/web")));
    }
    for other in ["", "shop/web:http", NODE_PORTS_COMMENT, "cluster IP"] {
        assert_eq!(PortComment::parse(other), None, "{other}");
    }
}
