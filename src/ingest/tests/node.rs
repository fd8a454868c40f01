//! What a Node object amounts to.

use serde_json::{Value, json};

use super::{assert_noted, parse};
use crate::ingest::node;
use crate::model::Node;

/// The node of this object, of which nothing was ignored.
#[track_caller]
fn read(object: Value) -> Node {
    let (node, diagnostics) = node(&parse(object));
    assert_noted(&diagnostics, &[]);
    node
}

#[test]
fn internal_addresses_come_before_external_ones() {
    let object = json!({
        "metadata": { "name": "here" },
        "status": { "addresses": [
            { "type": "ExternalIP", "address": "198.51.100.4" },
            { "type": "Hostname", "address": "here" },
            { "type": "InternalIP", "address": "192.168.0.2" },
            { "type": "InternalIP", "address": "fd00::2" },
            { "type": "InternalIP", "address": "nowhere" },
            { "type": "ExternalIP", "address": "2001:db8::4" },
            { "type": "InternalDNS", "address": "here.internal" },
        ] },
    });
    let (node, diagnostics) = node(&parse(object));
    let addresses: Vec<String> = node.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(
        addresses,
        ["192.168.0.2", "fd00::2", "198.51.100.4", "2001:db8::4"]
    );
    assert_noted(
        &diagnostics,
        &["status.addresses[4].address: `nowhere` is not a valid address; it is skipped"],
    );
    let shown = diagnostics[0].to_string();
    assert!(shown.starts_with("Node `here`: "), "{shown}");
}

#[test]
fn pod_networks_keep_their_order() {
    let object = json!({ "spec": { "podCIDRs": ["10.244.3.0/24", "here", "fd00:3::/64"] } });
    let (node, diagnostics) = node(&parse(object));
    let cidrs: Vec<String> = node.pod_cidrs.iter().map(ToString::to_string).collect();
    assert_eq!(cidrs, ["10.244.3.0/24", "fd00:3::/64"]);
    assert_noted(
        &diagnostics,
        &["spec.podCIDRs[1]: `here` is not a valid network; it is skipped"],
    );
}

#[test]
fn zone_is_a_label() {
    let labelled = |labels: Value| {
        read(json!({ "metadata": { "labels": labels } }))
            .topology
            .zone
    };
    let zone = labelled(json!({ "topology.kubernetes.io/zone": "a" }));
    assert_eq!(zone.as_deref(), Some("a"));
    assert_eq!(labelled(json!({ "topology.kubernetes.io/zone": "" })), None);
    assert_eq!(
        labelled(json!({ "topology.kubernetes.io/region": "a" })),
        None
    );
}

#[test]
fn node_leaves_when_deleted_or_tainted() {
    #[track_caller]
    fn check(object: Value, is_leaving: bool) {
        assert_eq!(read(object).is_leaving, is_leaving);
    }

    let tainted = |key: &str| json!({ "spec": { "taints": [{ "key": "a" }, { "key": key }] } });
    check(json!({}), false);
    check(tainted("node.kubernetes.io/unschedulable"), false);
    check(tainted("ToBeDeletedByClusterAutoscaler"), true);
    check(
        json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
        true,
    );
}
