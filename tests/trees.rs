//! Packets end alike in flat dispatch chains and in trees, by what `explain` says of random
//! clusters in both forms.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use deltaproxy::testing::inspect::catalog::Catalog;
use deltaproxy::testing::inspect::explain::{ClientSelection, NodeRules, PathResult, explain};
use deltaproxy::testing::net::IpFamily;
use deltaproxy::testing::render::{LiveChains, TreeThresholds, flattened};
use deltaproxy::testing::rules::{RuleSet, Share, Table};

use crate::cluster::{Dice, World, any_settings};
use crate::support::left_out::is_due;
use crate::support::payloads;
use crate::support::rules::tree_chains;

/// Turns of four clusters: of both families, with Services from the start and without.
const TURNS: u64 = 4;

/// Destinations that are tried of each cluster.
const MOST_DESTINATIONS: usize = 60;

fn rendered(world: &World, setting: u64, thresholds: TreeThresholds) -> RuleSet {
    let tracker = world.tracker();
    let environment = any_settings(&mut Dice::new(setting), world.family);
    let mut options = environment.options(tracker.node(), &[]);
    options.tree_thresholds = thresholds;
    let (payload, ..) = payloads::full(&tracker, &options, &LiveChains::default());
    let mut rules = RuleSet::default();
    rules.apply(&payload).unwrap();
    rules
}

/// Returns the rules of a random cluster, flat and as trees.
fn both_forms(seed: u64) -> [RuleSet; 2] {
    let family = IpFamily::ALL[usize::try_from(seed % 2).unwrap()];
    let mut world = if seed % 4 < 2 {
        World::plain(family, 60, 1)
    } else {
        World::empty(family)
    };
    for edit in 0..100 {
        world.edit(&mut Dice::new(seed * 1_000 + edit));
    }
    let limit = Some(2 + seed % 9);
    let trees = TreeThresholds {
        nat: limit,
        filter: limit,
    };
    [TreeThresholds::FLAT, trees].map(|form| rendered(&world, seed, form))
}

/// Returns the frontends in the rules, with the protocol; those of the node at its own address.
fn destinations(rules: &RuleSet, own: IpAddr) -> BTreeSet<(SocketAddr, String)> {
    let catalog = Catalog::read(rules);
    let all = catalog.ports.iter().flat_map(|(name, view)| {
        view.frontends.iter().map(|frontend| {
            let address = SocketAddr::new(frontend.ip.unwrap_or(own), frontend.port);
            (address, name.protocol.to_string())
        })
    });
    all.collect()
}

/// Returns the shares of the packets from a client, with their results.
fn explained(
    rules: &RuleSet,
    (source, own): (IpAddr, IpAddr),
    (to, protocol): (SocketAddr, &str),
) -> Vec<(Share, PathResult)> {
    let nodes = [NodeRules::new(rules, IpFamily::of(own), &[own].into())];
    let client = ClientSelection::Source {
        ip: source,
        in_interface: None,
    };
    let query = format!("{to}/{protocol}").parse().unwrap();
    let explained = explain(&query, &nodes, &client).unwrap();
    let branches = explained[0].paths[0].branches.iter();
    branches
        .map(|branch| (branch.share, branch.result.clone()))
        .collect()
}

#[test]
fn packets_end_alike_in_flat_chains_and_in_trees() {
    let (mut asked, mut chains) = (0, 0);
    let due: Vec<u64> = (0..TURNS).filter(|turn| is_due(*turn, TURNS)).collect();
    for seed in due.iter().flat_map(|turn| turn * 4..(turn + 1) * 4) {
        let [flat, tree] = both_forms(seed);
        chains += tree_chains(&tree);
        let count = |rules: &RuleSet| rules.rule_count(Table::Nat);
        assert_eq!(count(&flattened(tree.clone())), count(&flat));
        let addresses = if seed % 2 == 0 {
            ["192.168.0.2", "198.51.100.7", "10.244.7.7"]
        } else {
            ["fd00:192::2", "2001:db8::7", "fd00:10:244::77"]
        };
        let clients = addresses.map(|text| text.parse::<IpAddr>().unwrap());
        let own = clients[0];
        let all = destinations(&flat, own);
        let step = all.len().div_ceil(MOST_DESTINATIONS).max(1);
        for (address, protocol) in all.iter().step_by(step) {
            // The neighbor is in the same leaf, mostly without rules.
            for ip in [address.ip(), neighbor(address.ip())] {
                let to = (SocketAddr::new(ip, address.port()), protocol.as_str());
                for client in clients {
                    asked += 1;
                    let [of_flat, of_tree] =
                        [&flat, &tree].map(|rules| explained(rules, (client, own), to));
                    assert_eq!(of_tree, of_flat, "{to:?} from {client}");
                }
            }
        }
    }
    // One turn has fewer than its share.
    let (questions, trees) = if due.len() as u64 == TURNS {
        (3_000, 150)
    } else {
        (700, 25)
    };
    assert!(
        asked > questions && chains > trees,
        "{asked} asked, {chains} chains"
    );
}

fn neighbor(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => IpAddr::V4((ip.to_bits() ^ 1).into()),
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() ^ 1).into()),
    }
}
