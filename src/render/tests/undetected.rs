//! Endpoints on this node that the match for local Pod traffic does not recognize.

use super::{http_service, one_endpoint};
use crate::model::{Endpoint, ServiceName};
use crate::net::{IpFamily, parse_cidr};
use crate::render::options::{Comments, LocalDetector, Options};
use crate::render::service::{self, ServiceRules};

/// Returns the number of ports with such endpoints: one endpoint, with Pods in this network.
fn undetected(endpoint: Endpoint, pods: LocalDetector) -> usize {
    let name = ServiceName::new("shop", "web");
    let mut slice = one_endpoint(&name, "http");
    slice.endpoints = Box::new([endpoint]);
    let options = Options {
        local_traffic: pods,
        node_ip: [10, 200, 0, 2].into(),
        ..Options::defaults(IpFamily::V4)
    };
    let mut rules = ServiceRules::default();
    let state = http_service([10, 96, 0, 1].into(), slice);
    service::render(&mut rules, &name, &state, &options, Comments::Everywhere);
    rules.totals().undetected
}

#[test]
fn a_local_pod_outside_of_the_cluster_cidr_is_undetected() {
    let network = |text| LocalDetector::Cidr(parse_cidr(text).unwrap());
    let endpoint = |ip: [u8; 4], is_local| Endpoint {
        is_local,
        ..Endpoint::ready(ip.into())
    };
    let pod = endpoint([10, 4, 0, 11], true);
    assert_eq!(undetected(pod.clone(), network("10.244.0.0/16")), 1);
    assert_eq!(undetected(pod.clone(), network("10.4.0.0/14")), 0);
    // Matches of interfaces do not depend on addresses.
    assert_eq!(undetected(pod.clone(), LocalDetector::Absent), 0);
    assert_eq!(undetected(pod, LocalDetector::Bridge("cni0".into())), 0);
    // A Pod of another node may have any network, and one on the host network is the node.
    for other in [
        endpoint([10, 4, 0, 11], false),
        endpoint([10, 200, 0, 2], true),
    ] {
        assert_eq!(undetected(other, network("10.244.0.0/16")), 0);
    }
}
