//! Trees of many rules: their size, the size of changes, and their stability.

use std::net::IpAddr;

use hashbrown::HashMap;

use super::{DispatchTree, TreeChanges, TreeExtent};
use crate::model::ServiceName;
use crate::net::Protocol;
use crate::render::service::{DispatchKey, DispatchRule};
use crate::ruleset::{DispatchChain, DispatchDestination};

const KEY: DispatchKey = DispatchKey {
    chain: DispatchChain::NatServices,
    port_index: Some(0),
};

/// Tree of Services with one rule each, and the texts of their rules.
struct Scene {
    tree: DispatchTree,
    rules: HashMap<ServiceName, DispatchRule>,
}

impl Scene {
    fn new() -> Self {
        Self {
            tree: DispatchTree::new(DispatchChain::NatServices),
            rules: HashMap::new(),
        }
    }

    fn with(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut scene = Self::new();
        addresses.into_iter().for_each(|ip| scene.add(ip));
        scene.changes();
        scene
    }

    fn add(&mut self, ip: IpAddr) {
        let name = ServiceName::new("namespace", &format!("service-{ip}"));
        let text = format!(
            " -m comment --comment \"{name}:http cluster IP\" -m tcp -p tcp -d {ip} --dport 80 \
             -j KUBE-SVC-XPGD46QRK7WJZT7O\n"
        );
        let rule = DispatchRule {
            key: KEY,
            destination: DispatchDestination::Address(ip),
            text: text.into_bytes().into(),
        };
        self.tree.replace(&name, &[], std::slice::from_ref(&rule));
        self.rules.insert(name, rule);
    }

    fn remove(&mut self, ip: IpAddr) {
        let name = ServiceName::new("namespace", &format!("service-{ip}"));
        let rule = self.rules.remove(&name).unwrap();
        self.tree.replace(&name, &[rule], &[]);
    }

    fn changes(&mut self) -> TreeChanges {
        let rules = &self.rules;
        self.tree
            .render_and_record(TreeExtent::ChangedChains, &|name, _| &rules[name].text)
    }

    /// Returns the bytes that the last changes write.
    fn written(&mut self) -> usize {
        let changes = self.changes();
        let mut text = Vec::new();
        changes.write_chains(&mut text);
        let deleted = changes.deleted.iter().map(|name| 2 * name.len() + 14);
        text.len() + changes.root.map_or(0, |root| root.len()) + deleted.sum::<usize>()
    }
}

/// Addresses spread over a range, each once.
fn addresses(count: u32, first: [u8; 4], bits: u32) -> impl Iterator<Item = IpAddr> {
    // An odd factor permutes the numbers of a power of two.
    let mask = (1_u32 << bits) - 1;
    let at = move |n: u32| n.wrapping_mul(2_654_435_761) & mask;
    (0..count).map(move |n| IpAddr::V4((u32::from_be_bytes(first) + at(n)).into()))
}

#[test]
fn a_change_of_one_service_among_50_000_writes_less_than_2_kb() {
    for bits in [16, 17, 20] {
        let all: Vec<IpAddr> = addresses(50_000, [10, 96, 0, 0], bits).collect();
        let mut scene = Scene::with(all.iter().copied());
        let (mut most, mut sum, mut count) = (0, 0, 0);
        let step = 499;
        for ip in all.iter().step_by(step) {
            scene.remove(*ip);
            let removed = scene.written();
            scene.add(*ip);
            let added = scene.written();
            most = most.max(removed).max(added);
            sum += removed + added;
            count += 2;
        }
        assert!(most < 2_048, "{bits} bits: {most} bytes");
        assert!(sum / count < 1_200, "{bits} bits: {} bytes", sum / count);
    }
}

#[test]
fn the_chains_are_few() {
    for (bits, most_chains) in [(16, 11_000), (20, 13_500)] {
        let all: Vec<IpAddr> = addresses(50_000, [10, 96, 0, 0], bits).collect();
        let scene = Scene::with(all.iter().copied());
        assert!(scene.tree.len() < most_chains, "{}", scene.tree.len());
    }
}

#[test]
fn a_service_that_comes_and_goes_at_a_limit_splits_a_leaf_once() {
    let address = |last: u8| IpAddr::from([10, 96, 0, last]);
    // The leaf of the root; a leaf that three bits make; one that a single bit makes.
    for (others, leaf) in [(0..0, 0..8), (16..32, 0..8), (32..64, 0..8)] {
        let others: Vec<IpAddr> = others.map(|last| address(last * 4)).collect();
        let mut scene = Scene::with(others.into_iter().chain(leaf.map(address)));
        let ninth = address(8);
        scene.add(ninth);
        scene.changes();
        let split: Vec<String> = scene.tree.names().map(str::to_owned).collect();
        for _ in 0..3 {
            scene.remove(ninth);
            let changes = scene.changes();
            assert!(changes.deleted.is_empty());
            assert!(scene.tree.names().eq(&split));
            scene.add(ninth);
            scene.changes();
            assert!(scene.tree.names().eq(&split));
        }
    }
}

#[test]
fn the_shape_is_that_of_the_addresses_in_any_order() {
    let all: Vec<IpAddr> = addresses(2_000, [10, 96, 0, 0], 16).collect();
    let forward = Scene::with(all.iter().copied());
    let mut backward = Scene::new();
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
    // An address outside of the range needs a jump of its own.
    scene.add("192.0.2.1".parse().unwrap());
    let changes = scene.changes();
    assert!(changes.root.is_some() && changes.written.is_empty());
}

#[test]
fn rules_of_other_protocols_have_other_ranges() {
    let mut tree = DispatchTree::new(DispatchChain::NatNodePorts);
    let key = DispatchKey {
        chain: DispatchChain::NatNodePorts,
        port_index: Some(0),
    };
    let mut rules = HashMap::new();
    for number in 30_000..30_040_u16 {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let name = ServiceName::new("ns", &format!("{protocol}-{number}"));
            let rule = DispatchRule {
                key,
                destination: DispatchDestination::Port(protocol, number.try_into().unwrap()),
                text: format!(" -p {protocol} --dport {number}\n")
                    .into_bytes()
                    .into(),
            };
            tree.replace(&name, &[], std::slice::from_ref(&rule));
            rules.insert(name, rule);
        }
    }
    let changes = tree.render_and_record(TreeExtent::ChangedChains, &|name, _| &rules[name].text);
    let root = changes.root.unwrap();
    assert_eq!(
        root,
        "-A KUBE-NODEPORTS -m tcp -p tcp --dport 29952:30079 -j KUBE-SVC-tcp/29952-30079\n\
         -A KUBE-NODEPORTS -m udp -p udp --dport 29952:30079 -j KUBE-SVC-udp/29952-30079\n"
    );
}
