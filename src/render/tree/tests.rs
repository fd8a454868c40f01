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

/// Namespace of the Services.
const NAMESPACE: &str = "namespace";

/// As long as Kubernetes allows for a namespace or a Service.
const LONGEST_NAME: &str = "a-name-of-63-characters-is-the-longest-that-kubernetes-allows--";

/// Tree of Services with one rule each, and the texts of their rules.
struct Scene {
    tree: DispatchTree,
    rules: HashMap<ServiceName, DispatchRule>,
    namespace: &'static str,
}

impl Scene {
    fn new(namespace: &'static str) -> Self {
        Self {
            tree: DispatchTree::new(DispatchChain::NatServices),
            rules: HashMap::new(),
            namespace,
        }
    }

    fn with(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self::in_namespace(NAMESPACE, addresses)
    }

    fn in_namespace(namespace: &'static str, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut scene = Self::new(namespace);
        for ip in addresses {
            scene.add(ip);
        }
        scene.changes();
        scene
    }

    fn add(&mut self, ip: IpAddr) {
        self.add_destination(DispatchDestination::ClusterIp(ip));
    }

    fn remove(&mut self, ip: IpAddr) {
        self.remove_destination(DispatchDestination::ClusterIp(ip));
    }

    fn add_external(&mut self, ip: IpAddr) {
        self.add_destination(DispatchDestination::ExternalIp(ip));
    }

    fn remove_external(&mut self, ip: IpAddr) {
        self.remove_destination(DispatchDestination::ExternalIp(ip));
    }

    fn add_destination(&mut self, destination: DispatchDestination) {
        let (name, ip) = self.service_of(destination);
        let text = format!(
            " -m comment --comment \"{name}:http cluster IP\" -m tcp -p tcp -d {ip} --dport 80 \
             -j KUBE-SVC-XPGD46QRK7WJZT7O\n"
        );
        let rule = DispatchRule {
            key: KEY,
            destination,
            text: text.into_bytes().into(),
        };
        self.tree.replace(&name, &[], std::slice::from_ref(&rule));
        self.rules.insert(name, rule);
    }

    fn remove_destination(&mut self, destination: DispatchDestination) {
        let (name, _) = self.service_of(destination);
        let rule = self.rules.remove(&name).unwrap();
        self.tree.replace(&name, &[rule], &[]);
    }

    /// Returns the number of rules in the largest leaf.
    fn largest_leaf(&mut self) -> usize {
        let rules = &self.rules;
        let text_of = |name: &ServiceName, _| &*rules[name].text;
        let changes = self.tree.render_and_record(TreeExtent::AllChains, &text_of);
        let leaves = changes.written.iter();
        let rules_of_services = |text: &str| text.matches("--comment").count();
        leaves
            .map(|(_, text)| rules_of_services(text))
            .max()
            .unwrap()
    }

    fn changes(&mut self) -> TreeChanges {
        let rules = &self.rules;
        self.tree
            .render_and_record(TreeExtent::ChangedChains, &|name, _| &rules[name].text)
    }

    /// Returns the Service of a destination. In the longest namespace its name is as long.
    fn service_of(&self, destination: DispatchDestination) -> (ServiceName, IpAddr) {
        let (kind, ip) = match destination {
            DispatchDestination::ClusterIp(ip) => ("service", ip),
            DispatchDestination::ExternalIp(ip) => ("external", ip),
            other => panic!("{other:?}"),
        };
        let mut name = format!("{kind}-{ip}");
        if self.namespace == LONGEST_NAME {
            name = format!("{name:-<63}");
        }
        (ServiceName::new(self.namespace, &name), ip)
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

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
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
    let in_ranges = |first_of_second: u32, bits: u32| -> Vec<IpAddr> {
        let first = addresses(first_of_second, [10, 96, 0, 0], bits);
        let second = addresses(50_000 - first_of_second, [172, 16, 0, 0], bits);
        first.chain(second).collect()
    };
    for (namespace, all, most_on_average) in [
        (NAMESPACE, in_ranges(50_000, 16), 1_200),
        (NAMESPACE, in_ranges(50_000, 17), 1_200),
        (NAMESPACE, in_ranges(50_000, 20), 1_200),
        (NAMESPACE, in_ranges(40_000, 20), 1_200),
        (LONGEST_NAME, in_ranges(50_000, 16), 1_500),
        (LONGEST_NAME, in_ranges(30_000, 17), 1_500),
    ] {
        let mut scene = Scene::in_namespace(namespace, all.iter().copied());
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
        assert!(most < 2_048, "{namespace}: {most} bytes");
        assert!(
            sum / count < most_on_average,
            "{namespace}: {} bytes",
            sum / count
        );
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
fn a_leaf_of_the_root_is_split_once_though_its_common_prefix_changes() {
    let last_bytes = [1, 5, 9, 13, 17, 21, 25, 29_u8];
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
fn external_ips_do_not_make_the_tree_of_cluster_ips_deeper() {
    let all: Vec<IpAddr> = addresses(3_000, [10, 96, 0, 0], 12).collect();
    let mut scene = Scene::with(all);
    // Each has one bit more in common with the cluster IPs than the one before.
    let far = [
        "31.0.0.1",
        "11.0.0.1",
        "10.1.0.1",
        "10.110.0.1",
        "10.97.0.1",
    ]
    .map(ip);
    for _ in 0..2 {
        for ip in far {
            scene.add_external(ip);
        }
        assert!(scene.written() < 2_048);
        assert!(scene.largest_leaf() <= 8);
        for ip in far {
            scene.remove_external(ip);
        }
        assert!(scene.written() < 2_048);
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
        rules.next().unwrap().contains("external-10.96.0.5:http"),
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
