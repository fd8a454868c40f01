//! Cost of one change as the cluster grows: nearly the same at every size at which dispatch chains
//! are trees.
//!
//! Counted from the arrival of a changed object to the end of the sync and to what it leaves behind
//! in conntrack. `GROWTH=1000,10000,50000` names other sizes.

use std::env;

use deltaproxy::testing::model::{Change, Service};
use deltaproxy::testing::net::{IpFamily, Protocol};
use deltaproxy::testing::sync::Outcome;

use super::callgrind;
use super::cluster::{Use, World, ip};
use super::left_out::is_due;
use super::node::Node;

/// Tells the child how many Services to have.
const SERVICES: &str = "GROWTH_SERVICES";
/// Tells the child what changes.
const CHANGE: &str = "GROWTH_CHANGE";
/// An endpoint comes back.
const ENDPOINT: &str = "endpoint";
/// A UDP Service goes, of as many as there are: its flows may be another's.
const UDP_SERVICE: &str = "UDP Service";
/// All Services ask for one external IP, and the one that has it gives it up.
const EXTERNAL_IP: &str = "external IP";
/// Part by which the count may grow when the cluster doubles. Hash tables and trees do not hit the
/// same depth every time, and where dispatch rules change, each level of their tree is divided
/// anew. A walk through all Services doubles the count.
const TOLERANCES: [(&str, f64); 3] = [(ENDPOINT, 0.05), (UDP_SERVICE, 0.20), (EXTERNAL_IP, 0.12)];

/// What callgrind counts, and nothing else.
#[inline(never)]
fn one_change(node: &mut Node, change: Change) -> Outcome {
    node.syncer.tracker.apply(change);
    node.sync()
}

/// The child: not a test of its own.
#[test]
#[ignore = "run by the other one"]
fn count() {
    let services = env::var(SERVICES).unwrap().parse().unwrap();
    let what = env::var(CHANGE).unwrap();
    let mut world = World::plain(IpFamily::V4, services, 5);
    if what == UDP_SERVICE {
        for service in world.services.values_mut() {
            service.ports[0].protocol = Protocol::Udp;
        }
        for slice in world.slices.values_mut() {
            slice.ports[0].protocol = Protocol::Udp;
        }
    }
    if what == EXTERNAL_IP {
        let shared = ip(IpFamily::V4, Use::Balancer, 1);
        for service in world.services.values_mut() {
            service.external_ips = Box::new([shared]);
        }
    }
    let mut node = Node::new(&world);
    assert!(node.sync().rules.nat > services as u64);
    let of = services / 2;
    // The first ones fill what is allocated once.
    let (first, counted): (Vec<_>, _) = match what.as_str() {
        ENDPOINT => (world.turns(of).take(1).collect(), world.turns(of).nth(1)),
        UDP_SERVICE => (world.visits(of).take(2).collect(), world.visits(of).next()),
        EXTERNAL_IP => {
            let (name, with) = world.services.first_key_value().unwrap();
            let mut without = with.clone();
            without.external_ips = Box::default();
            let change =
                |service: &Service| Change::Service(name.clone(), Some(Box::new(service.clone())));
            let first = vec![change(&without), change(with)];
            (first, Some(change(&without)))
        }
        other => panic!("{other}"),
    };
    for change in first {
        node.syncer.tracker.apply(change);
        assert_ne!(node.sync().attempts[0].stats.bytes, 0);
    }
    let outcome = one_change(&mut node, counted.unwrap());
    assert_eq!(outcome.attempts.len(), 1);
    assert_ne!(outcome.attempts[0].stats.bytes, 0);
}

fn instructions(change: &str, services: u32) -> f64 {
    let variables = [
        (SERVICES, services.to_string()),
        (CHANGE, change.to_owned()),
    ];
    callgrind::instructions("*one_change*", "clusters::count", &variables)
}

#[test]
fn one_change_costs_the_same_in_every_cluster() {
    if !callgrind::is_installed() {
        return;
    }
    for (turn, (change, tolerance)) in TOLERANCES.into_iter().enumerate() {
        if is_due(turn as u64, TOLERANCES.len() as u64) {
            check(change, tolerance);
        }
    }
}

#[track_caller]
fn check(change: &str, tolerance: f64) {
    let sizes = env::var("GROWTH").unwrap_or_else(|_| "400,1000".to_owned());
    let counted: Vec<(u32, f64)> = sizes
        .split(',')
        .map(|size| size.parse().unwrap())
        .map(|size| (size, instructions(change, size)))
        .collect();
    let (fewest, first) = counted[0];
    for (services, count) in &counted {
        println!("{change}, {services} Services: {count} instructions");
        let doublings = (f64::from(*services) / f64::from(fewest)).log2();
        assert!(
            (count / first - 1.0).abs() <= tolerance * doublings,
            "{change}: {counted:?} differ by more than {tolerance} for each doubling"
        );
    }
}
