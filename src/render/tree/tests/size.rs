//! Number and size of the chains of large trees, and of the changes that a restore writes.

use std::net::IpAddr;

use super::scene::{LONGEST, NAMESPACE, Scene, addresses, bytes_of, ip};
use crate::model::ServiceName;
use crate::render::options::PartialRestore;
use crate::render::service::DispatchRule;
use crate::ruleset::{DispatchChain, DispatchDestination};

#[test]
fn of_50_000_services_the_chains_are_few_and_a_change_writes_less_than_2_kb() {
    let in_ranges = |first_of_second: u32, bits: u32| -> Vec<IpAddr> {
        let first = addresses(first_of_second, [10, 96, 0, 0], bits);
        let second = addresses(50_000 - first_of_second, [172, 16, 0, 0], bits);
        first.chain(second).collect()
    };
    // Limits of the number of chains, and of averages: removals, insertions, and all changes if
    // leaves are written whole.
    for (namespace, all, chains, removed, inserted, whole) in [
        (NAMESPACE, in_ranges(50_000, 16), 13_000, 1_000, 200, 1_200),
        (NAMESPACE, in_ranges(50_000, 17), 9_000, 1_000, 200, 1_200),
        (NAMESPACE, in_ranges(50_000, 20), 11_500, 1_100, 200, 1_400),
        (NAMESPACE, in_ranges(40_000, 20), 9_000, 1_400, 200, 1_400),
        (LONGEST, in_ranges(50_000, 16), 15_500, 1_200, 300, 1_500),
        (LONGEST, in_ranges(30_000, 17), 13_500, 1_000, 300, 1_500),
    ] {
        let mut scene = Scene::in_namespace(namespace, all.iter().copied());
        assert!(scene.tree.len() < chains, "{}", scene.tree.len());
        let mut check = |extent, limits: [usize; 2]| {
            let mut written = [Vec::new(), Vec::new()];
            for ip in all.iter().step_by(499) {
                scene.remove(*ip);
                written[0].push(bytes_of(&scene.rendered(extent)));
                scene.add(*ip);
                written[1].push(bytes_of(&scene.rendered(extent)));
            }
            let most = written.iter().flatten().max().unwrap();
            assert!(*most < 2_048, "{namespace}, {extent:?}: {most} bytes");
            let averages = written.map(|bytes| bytes.iter().sum::<usize>() / bytes.len());
            let are_within = averages
                .iter()
                .zip(limits)
                .all(|(average, limit)| *average < limit);
            assert!(are_within, "{namespace}, {extent:?}: {averages:?} bytes");
            averages.iter().sum::<usize>() / 2
        };
        check(PartialRestore::ChangedChains, [removed, inserted]);
        let average = check(PartialRestore::WholeTreeChains, [2_048; 2]);
        assert!(average < whole, "{namespace}: {average} bytes");
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
        assert!(scene.largest_leaf() <= 12);
        for ip in far {
            scene.remove_external(ip);
        }
        assert!(scene.written() < 2_048);
    }
}

/// Bytes that a change writes at most where a user has chosen the addresses of other Services.
const MOST_IF_CHOSEN: usize = 2_560;

/// A Service with so many ports that its rules do not fit into a leaf.
fn many_ports(ip: IpAddr) -> (ServiceName, Vec<DispatchRule>) {
    let name = ServiceName::new("other", &format!("many-{ip}"));
    let rules = (1..=300).map(|port| DispatchRule {
        chain: DispatchChain::NatServices,
        destination: DispatchDestination::ClusterIp(ip),
        text: format!(" -m tcp -p tcp -d {ip} --dport {port} -m comment --comment x -j Y\n")
            .into_bytes()
            .into(),
    });
    (name, rules.collect())
}

/// Scene with some Services of many rules more.
struct Mixed(Scene);

impl Mixed {
    fn new(mut scene: Scene, heavy: impl IntoIterator<Item = IpAddr>) -> Self {
        for (name, rules) in heavy.into_iter().map(many_ports) {
            scene.add_service(name, rules.into());
        }
        Self(scene)
    }

    fn written(&mut self) -> usize {
        bytes_of(&self.0.rendered(PartialRestore::WholeTreeChains))
    }

    /// Adds a Service and removes it; returns the bytes of the larger change.
    fn toggle(&mut self, ip: IpAddr) -> usize {
        self.0.add(ip);
        let added = self.written();
        self.0.remove(ip);
        added.max(self.written())
    }
}

#[test]
fn many_rules_of_one_address_are_not_written_with_another_service() {
    let scene = Scene::with(addresses(40, [10, 96, 0, 0], 8));
    let mut mixed = Mixed::new(scene, ["10.97.0.1", "10.96.0.201"].map(ip));
    assert!(mixed.written() > 20_000);
    for neighbor in ["10.97.0.2", "10.97.200.1", "10.96.0.200", "10.96.0.202"].map(ip) {
        let written = mixed.toggle(neighbor);
        assert!(written < 1_500, "{written} bytes");
    }
}

#[test]
fn many_rules_are_not_written_with_another_service_at_the_last_level() {
    let other = u32::from_be_bytes([10, 101, 90, 95]);
    // Two ranges, and addresses at each level: the chains of addresses are at the eighth.
    let near = (8..28).map(|bit| IpAddr::V4((other ^ (1 << bit)).into()));
    let second = (0..9).map(|last| IpAddr::from([10, 200, last, 1]));
    let scene = Scene::with(addresses(500, [10, 96, 0, 0], 20).chain(near).chain(second));
    let heavy = (1..16).map(|bits| IpAddr::V4((other ^ bits).into()));
    let mut mixed = Mixed::new(scene, heavy);
    assert!(mixed.written() > 200_000);
    for small in [
        IpAddr::V4(other.into()),
        ip("10.200.77.1"),
        ip("10.111.7.7"),
    ] {
        let written = mixed.toggle(small);
        assert!(written < MOST_IF_CHOSEN, "{written} bytes");
    }
}

#[test]
fn cluster_ips_chosen_by_a_user_make_no_long_leaf() {
    let other = u32::from_be_bytes([10, 101, 77, 41]);
    // Each has some bits in common with the address of another user, down to the last one.
    let near = (0..20).map(|bit| IpAddr::V4((other ^ (1 << bit)).into()));
    let range = addresses(2_000, [10, 96, 0, 0], 20);
    let in_another_range = (0..255).map(|last| IpAddr::from([10, 200, 7, last]));
    let mut scene = Scene::with(range.chain(near).chain(in_another_range));
    assert!(scene.largest_leaf() <= 12);
    let mut mixed = Mixed::new(scene, []);
    for far in ["10.111.1.1", "10.200.99.1", "10.101.77.41"].map(ip) {
        let written = mixed.toggle(far);
        assert!(written < MOST_IF_CHOSEN, "{written} bytes");
    }
}
