//! Findings about the objects of a cluster.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use super::{MIB, available_in, clock, memory, pod_networks, pods_of};
use crate::ingest::{EndpointObject, EndpointSliceObject};
use crate::model::Node;
use crate::render::LocalMode;

fn node(cidrs: &[&str]) -> Node {
    Node {
        addresses: vec!["192.0.2.1".parse().unwrap()],
        pod_cidrs: cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
        ..Node::default()
    }
}

fn cluster_cidr(cidrs: &[&str]) -> LocalMode {
    LocalMode::ClusterCidr(cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect())
}

#[test]
fn clocks_may_differ_by_seconds() {
    let here = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
    let second = Duration::from_secs(1);
    assert!(clock(Some(here), here).is_ok());
    assert!(clock(Some(here + 3 * second), here).is_ok());
    assert!(!clock(Some(here + 4 * second), here).is_ok());
    assert!(!clock(Some(here - 4 * second), here).is_ok());
    assert!(!clock(None, here).is_ok());
}

#[test]
fn pods_are_endpoints_of_this_node_without_its_own_address() {
    let endpoint = |address: &str, node: &str| EndpointObject {
        addresses: vec![address.to_owned()],
        node_name: Some(node.to_owned()),
        ..EndpointObject::default()
    };
    let slice = EndpointSliceObject {
        endpoints: vec![
            endpoint("10.0.0.1", "node-a"),
            endpoint("10.0.0.2", "node-b"),
            endpoint("192.0.2.1", "node-a"),
            endpoint("name", "node-a"),
        ],
        ..EndpointSliceObject::default()
    };
    let pods = pods_of(&[slice], "node-a", Some(&node(&[])));
    assert_eq!(pods, BTreeSet::from(["10.0.0.1".parse().unwrap()]));
}

#[test]
fn pods_are_in_the_networks_of_pods() {
    let pods = BTreeSet::from(["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()]);
    let is_ok = |mode: &LocalMode, node: Option<&Node>| pod_networks(mode, node, &pods).is_ok();
    assert!(is_ok(&cluster_cidr(&["10.0.0.0/16"]), None));
    assert!(is_ok(&cluster_cidr(&["10.0.0.0/16", "fd00::/64"]), None));
    assert!(!is_ok(&cluster_cidr(&["10.1.0.0/16"]), None));
    assert!(!is_ok(&cluster_cidr(&["10.0.0.0/16", "fd01::/64"]), None));
    assert!(!is_ok(&cluster_cidr(&[]), None));
    assert!(is_ok(&LocalMode::NodeCidr, Some(&node(&["10.0.0.0/24"]))));
    assert!(!is_ok(&LocalMode::NodeCidr, Some(&node(&["10.0.1.0/24"]))));
    assert!(!is_ok(&LocalMode::NodeCidr, None));
}

#[test]
fn memory_grows_with_the_services() {
    assert!(memory(10_000, Some(524 * MIB)).is_ok());
    assert!(!memory(10_000, Some(523 * MIB)).is_ok());
    assert!(memory(0, Some(24 * MIB)).is_ok());
    assert!(memory(10_000, None).is_ok());
}

#[test]
fn available_memory_is_in_bytes() {
    let text = "MemTotal:       16 kB\nMemAvailable:    2048 kB\n";
    assert_eq!(available_in(text), Some(2 * MIB));
    assert_eq!(available_in("MemAvailable: much\n"), None);
    assert_eq!(available_in(""), None);
}
