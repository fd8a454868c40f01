//! Memory of the daemon while changes arrive behind a restore that hangs: bounded by the number of
//! objects, however many events there are.

use serde_json::{Value, json};

use crate::support::daemon::Backend;
use crate::support::http;
use crate::support::node::{Node, SHOP, with_restore};
use crate::support::process::memory;
use crate::support::wait::{PATIENCE, ensure, eventually};
use crate::support::{needs, objects};

/// As many slices as in the measurement that found 136 MB.
const SLICES: u64 = 400;
/// Versions of each slice: after the first ones memory may grow no more.
const FIRST: u64 = 5;
const VERSIONS: u64 = 40;
/// What a version of all slices takes is about 2 MB; the allocator and the parser of manifests keep
/// some more.
const SLACK_KB: u64 = 16 * 1024;

/// All slices, with a hundred endpoints each, as one JSON document.
fn manifest(version: u64) -> String {
    let endpoints = |of: u64| -> Vec<Value> {
        let address = |n| json!({"addresses": [format!("10.{}.{}.{n}", version % 250, of % 250)]});
        (1..=100).map(address).collect()
    };
    let slice = |of: u64| {
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": format!("s-{of}"), "labels": {"kubernetes.io/service-name": format!("s-{of}")}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080}],
            "endpoints": endpoints(of),
        })
    };
    let items: Vec<Value> = (0..SLICES).map(slice).collect();
    objects::manifest(&items)
}

fn endpoint_changes(node: &Node) -> u64 {
    let total = "kubeproxy_sync_proxy_rules_endpoint_changes_total ";
    http::count(&node.metrics(), total)
}

#[test]
fn changes_behind_a_restore_that_hangs_take_the_memory_of_their_objects() {
    needs!(Kernel);
    let node = Node::new(Backend::Nft);
    let [hangs, over] = [".hangs", ".over"].map(|name| node.manifests.path().join(name));
    let script = format!(
        "if [ -e {} ]; then until [ -e {} ]; do sleep 0.1; done; fi\nexec $REAL \"$@\"",
        hangs.display(),
        over.display()
    );
    let daemon = node.start(with_restore(Backend::Nft, &script));
    node.wait_for_rule("--to-destination 10.4.0.12:8080");
    std::fs::write(&hangs, "").expect("write a file");
    node.write(&SHOP.replace("10.4.0.12", "10.4.0.13"));

    let before = endpoint_changes(&node);
    let mut first = 0;
    for version in 1..=VERSIONS {
        let text = manifest(version);
        std::fs::write(node.manifests.path().join("slices.json"), text).expect("write manifests");
        eventually(PATIENCE, || {
            let changes = endpoint_changes(&node);
            ensure(changes >= before + version * SLICES, || {
                format!("version {version}: {changes} changes")
            })
        });
        if version == FIRST {
            first = memory(daemon.id(), "VmRSS");
        }
    }
    let last = memory(daemon.id(), "VmRSS");
    println!("{FIRST} versions: {first} kB, {VERSIONS} versions: {last} kB");
    assert!(last < first + SLACK_KB, "{first} kB, then {last} kB");

    // The last state is what counts once the restore goes on.
    node.write(&SHOP.replace("10.4.0.12", "10.4.0.14"));
    std::fs::write(&over, "").expect("write a file");
    node.wait_for_rule("--to-destination 10.4.0.14:8080");
}
