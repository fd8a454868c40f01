//! New rules are inserted into their chain if nothing else of it differs; otherwise it is written
//! whole.

use std::net::IpAddr;

use super::scene::{Changes, Scene, addresses, ip};
use crate::rules::RulesDigest;

/// Returns the number of chains that the changes write whole, and of those with insertions.
fn extents(changes: &Changes) -> (usize, usize) {
    let written = changes.written.iter();
    let (whole, inserted): (Vec<_>, Vec<_>) = written.partition(|chain| chain.is_whole);
    (whole.len(), inserted.len())
}

#[test]
fn a_new_service_inserts_one_rule() {
    let mut scene = Scene::with((1..8).map(|last| IpAddr::from([10, 96, 0, last * 2])));
    for (address, number) in [("10.96.0.1", 1), ("10.96.0.9", 6), ("10.96.0.200", 10)] {
        scene.add(ip(address));
        let changes = scene.changes();
        let [chain] = &changes.written[..] else {
            panic!("{changes:?}");
        };
        let start = format!("-I {} {number} -m comment ", chain.name);
        assert!(chain.rules.starts_with(&start), "{}", chain.rules);
        assert!(chain.rules.lines().count() == 1 && changes.root.is_none());
    }
}

#[test]
fn a_leaf_that_loses_or_replaces_a_rule_is_written_whole() {
    let mut scene = Scene::with((1..9).map(|last| IpAddr::from([10, 96, 0, last])));
    scene.remove(ip("10.96.0.3"));
    assert_eq!(extents(&scene.changes()), (1, 0));
    // Its rule could be inserted, were it not for the one that goes.
    scene.remove(ip("10.96.0.5"));
    scene.add(ip("10.96.0.3"));
    assert_eq!(extents(&scene.changes()), (1, 0));
    // Another Service at the same address.
    let before = scene.remove(ip("10.96.0.7"));
    scene.add(ip("10.96.0.7"));
    let mut services = scene.services.values_mut();
    let rule = services.find_map(|service| {
        let mut rules = service.dispatch.iter_mut();
        rules.find(|rule| **rule == before)
    });
    let rule = rule.unwrap();
    rule.text = [b" -m comment --comment another", &*rule.text]
        .concat()
        .into();
    assert_eq!(extents(&scene.changes()), (1, 0));
}

/// A reading finds that the kernel does not have the chain.
fn damage(scene: &mut Scene, chain: &str) {
    let read = |name: &str| (name == chain).then_some(RulesDigest::UNKNOWN);
    assert_eq!(scene.tree.observe(read), [chain.into()]);
}

#[test]
fn a_chain_whose_rules_are_unknown_is_written_whole_and_alone() {
    let all = addresses(2_000, [10, 96, 0, 0], 16);
    let mut scene = Scene::with(all.chain([ip("10.97.0.1")]));
    let chains: Vec<String> = scene.tree.names().map(str::to_owned).collect();
    for chain in &chains {
        damage(&mut scene, chain);
        let changes = scene.changes();
        assert_eq!(extents(&changes), (1, 0), "{chain}");
        // Those on the path to it.
        assert!(
            changes.rendered.len() <= 4,
            "{chain}: {:?}",
            changes.rendered
        );
    }
    // Also if a rule could be inserted.
    let mut scene = Scene::with((1..9).map(|last| IpAddr::from([10, 96, 0, last])));
    let leaf = scene.tree.names().next().unwrap().to_owned();
    damage(&mut scene, &leaf);
    scene.add(ip("10.96.0.20"));
    assert_eq!(extents(&scene.changes()), (1, 0));
}
