//! Shape of trees: it follows the addresses, and stays when Services come and go.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::super::DispatchTree;
use super::scene::{Changes, NAMESPACE, Scene, addresses, ip};
use crate::model::ServiceName;
use crate::net::Protocol;
use crate::render::options::PartialRestore;
use crate::render::service::{AppliedService, DispatchRule};
use crate::ruleset::{DispatchChain, DispatchDestination};

#[test]
fn a_service_that_comes_and_goes_at_a_limit_splits_a_leaf_once() {
    let address = |last: u8| IpAddr::from([10, 96, 0, last]);
    // The leaf of the root; a leaf that two bits make; one that a single bit makes.
    for others in [0..0, 16..32, 32..64] {
        let others = others.map(|last| address(last * 4));
        let mut scene = Scene::with((0..11).map(address).chain(others));
        let names =
            |scene: &Scene| -> Vec<String> { scene.tree.names().map(str::to_owned).collect() };
        let whole = names(&scene);
        let twelfth = address(11);
        scene.add(twelfth);
        scene.changes();
        let split = names(&scene);
        assert!(split.len() > whole.len(), "{split:?}");
        for _ in 0..3 {
            scene.remove(twelfth);
            let changes = scene.changes();
            assert!(changes.deleted.is_empty());
            assert_eq!(names(&scene), split);
            scene.add(twelfth);
            scene.changes();
            assert_eq!(names(&scene), split);
        }
    }
}

#[test]
fn a_leaf_of_the_root_is_split_once_though_its_common_prefix_changes() {
    let last_bytes = [1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45_u8];
    let mut scene = Scene::with(last_bytes.map(|last| IpAddr::from([203, 0, 113, last])));
    // Without it, the others have a longer prefix in common.
    let far = ip("203.0.113.225");
    scene.add(far);
    assert!(scene.written() < 2_048);
    scene.remove(far);
    assert!(scene.written() < 2_048);
    scene.add(far);
    scene.changes();
    for _ in 0..3 {
        scene.remove(far);
        let removed = scene.written();
        scene.add(far);
        let added = scene.written();
        assert!(removed < 500 && added < 500, "{removed} and {added} bytes");
    }
}

#[test]
fn a_cluster_ip_that_is_also_an_external_ip_is_in_both_trees() {
    let mut scene = Scene::with(addresses(100, [10, 96, 0, 0], 8));
    let both = ip("10.96.0.5");
    scene.add_external(both);
    let root = scene.changes().root.unwrap();
    let mut rules = root.lines();
    assert!(
        rules.next().unwrap().ends_with("-j KUBE-SVC-10.96.0.0/24"),
        "{root}"
    );
    assert!(
        rules.next().unwrap().ends_with("-j KUBE-EXT-0.0.0.0/4"),
        "{root}"
    );
    for last in 6..40 {
        scene.add_external(IpAddr::from([10, 96, 0, last]));
    }
    let root = scene.changes().root.unwrap();
    let targets: Vec<&str> = root
        .lines()
        .filter_map(|rule| rule.rsplit(' ').next())
        .collect();
    assert_eq!(targets, ["KUBE-SVC-10.96.0.0/24", "KUBE-EXT-10.96.0.0/24"]);
}

#[test]
fn the_shape_is_that_of_the_addresses_in_any_order() {
    let all: Vec<IpAddr> = addresses(2_000, [10, 96, 0, 0], 16).collect();
    let forward = Scene::with(all.iter().copied());
    let mut backward = Scene::new(NAMESPACE);
    for ip in all.iter().rev() {
        backward.add(*ip);
        backward.changes();
    }
    assert!(forward.tree.names().eq(backward.tree.names()));
}

#[test]
fn the_root_stays_when_a_service_is_added() {
    let mut scene = Scene::with(addresses(1_000, [10, 96, 0, 0], 16));
    for ip in addresses(1_200, [10, 96, 0, 0], 16).skip(1_000) {
        scene.add(ip);
        let changes = scene.changes();
        assert!(changes.root.is_none());
        // A leaf of several sizes of prefixes may be divided between two others.
        assert!(changes.deleted.len() <= 1);
    }
    // An address outside of the range needs a jump and a chain of its own.
    scene.add("192.0.2.1".parse().unwrap());
    let changes = scene.changes();
    assert!(changes.root.is_some() && changes.written.len() == 1);
}

#[test]
fn rules_of_other_protocols_have_other_ranges() {
    // NodePorts without endpoints are rejected in a chain that has rules for addresses as well.
    for (chain, start) in [
        (DispatchChain::NatNodePorts, "KUBE-SVC"),
        (DispatchChain::FilterExternalServices, "KUBE-EXT"),
    ] {
        let mut tree = DispatchTree::new(chain, String::new());
        let mut services = BTreeMap::new();
        for number in 30_000..30_040_u16 {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                let name = ServiceName::new("ns", &format!("{protocol}-{number}"));
                let text = format!(" -p {protocol} --dport {number}\n");
                let rule = DispatchRule {
                    chain,
                    destination: DispatchDestination::Port(protocol, number.try_into().unwrap()),
                    text: text.into_bytes().into(),
                };
                let service = AppliedService {
                    dispatch: Box::new([rule]),
                    ..AppliedService::default()
                };
                tree.replace(&name, &[], &service.dispatch);
                services.insert(name, service);
            }
        }
        let (written, update) = tree.render(PartialRestore::ChangedChains, &services);
        let changes = Changes::of(written, &update);
        let expected = ["tcp", "udp"].map(|protocol| {
            format!(
                "-A {} -m {protocol} -p {protocol} --dport 29952:30207 -j \
                 {start}-{protocol}/29952-30207\n",
                chain.name()
            )
        });
        assert_eq!(changes.root.unwrap(), expected.concat());
    }
}
