//! Names of Service chains, compared with those that kube-proxy writes.

use super::*;
use crate::model::ServiceName;
use crate::net::Protocol;

#[track_caller]
fn check(service: &str, port: &str, endpoint: &str, expected: &str) {
    let service = ServiceName::new("ns1", service);
    let name = ServicePortName {
        service: &service,
        port,
        protocol: Protocol::Tcp,
    };
    let hasher = ChainHasher::new(name);
    let chain = if endpoint.is_empty() {
        ServiceChain {
            kind: ChainKind::Cluster,
            hash: hasher.service_port(),
        }
    } else {
        ServiceChain {
            kind: ChainKind::Endpoint,
            hash: hasher.endpoint(endpoint.as_bytes()),
        }
    };
    assert_eq!(chain.name(), expected);
}

#[test]
fn chain_names_equal_those_of_kube_proxy() {
    check("svc1", "p80", "", "KUBE-SVC-XPGD46QRK7WJZT7O");
    check("svc1", "p80", "10.180.0.1:80", "KUBE-SEP-SXIVWICOYRO3J4NJ");
    check("six", "p", "", "KUBE-SVC-XMIJJXQQGQIVBXKY");
    check("six", "p", "[fd00:10::5]:80", "KUBE-SEP-YYHMXQEUHSHOQURZ");
    check("none", "", "", "KUBE-SVC-YPTPHO2BTFASFY3W");
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
