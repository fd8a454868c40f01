//! Which Service has a frontend that several ask for, and which Services are dirty for that.

use super::*;
use crate::model::{ExternalIps, Frontend, PortFrontend, Services};

const CLUSTER_IP: &str = "172.30.0.1";

/// A Service with a cluster IP, load balancer addresses and external IPs.
fn with(of: &str, ips: [&[&str]; 3]) -> Change {
    let [cluster, balancer, external]: [Box<[_]>; 3] =
        ips.map(|ips| ips.iter().map(|ip| parse_ip(ip).unwrap()).collect());
    edited(of, |service| {
        service.cluster_ip = cluster[0];
        service.load_balancer_ips = balancer;
        service.external_ips = external;
    })
}

fn frontend(ip: &str) -> Frontend {
    Frontend::Address(parse_ip(ip).unwrap(), port(80), Protocol::Tcp)
}

/// The names of those that have lost the address.
fn losers(tracker: &Tracker, ip: &str) -> Vec<String> {
    let frontend = frontend(ip);
    let lost = PortFrontend {
        port_index: 0,
        frontend,
    };
    let all = tracker.all();
    let losers = all.filter(|(_, state)| state.lost.contains(&lost));
    losers.map(|(name, _)| name.name().to_owned()).collect()
}

#[test]
fn an_address_twice_in_one_service_is_its_own() {
    let shared = "203.0.113.1";
    let both = with("a", [&[CLUSTER_IP], &[shared], &[shared, CLUSTER_IP]]);
    let tracker = applied([both]);
    assert_eq!(tracker.frontend_conflicts(), 0);
    assert!(tracker.all().all(|(_, state)| state.lost.is_empty()));
}

#[test]
fn of_two_ports_of_a_service_with_one_number_the_first_has_it() {
    let twice = edited("a", |service| {
        service.ports = ["p", "q"].map(|name| ServicePort::tcp(name, 80)).into();
    });
    let tracker = applied([twice]);
    let state = tracker.get(&name("a")).unwrap();
    let frontend = frontend("172.30.0.97");
    assert!(state.has(0, frontend) && !state.has(1, frontend));
}

#[test]
fn ignored_external_ips_are_no_claims() {
    let tracker = Tracker::new(STARTED);
    let mut tracker = tracker.with_external_ips(ExternalIps::Ignored);
    tracker.apply(with("a", [&["172.30.0.2"], &[], &[CLUSTER_IP]]));
    tracker.apply(with("b", [&[CLUSTER_IP], &[], &[]]));
    assert_eq!(tracker.frontend_conflicts(), 0);
}

/// Both sides of a conflict are dirty while something changes for them, and no longer.
#[test]
fn winners_and_losers_are_dirty() {
    let web = || with("web", [&[CLUSTER_IP], &[], &[]]);
    let thief = || with("thief", [&["172.30.0.2"], &[], &[CLUSTER_IP]]);
    let dirty = |tracker: &Tracker| -> Vec<String> {
        tracker.dirty().map(|name| name.name().to_owned()).collect()
    };
    let mut tracker = applied([thief()]);
    assert!(losers(&tracker, CLUSTER_IP).is_empty());
    tracker.apply(web());
    assert_eq!(dirty(&tracker), ["thief", "web"]);
    assert_eq!(losers(&tracker, CLUSTER_IP), ["thief"]);
    tracker.apply(no_service("web"));
    assert!(dirty(&tracker).is_empty());
    tracker.apply(web());
    let before = tracker.mark_applied().before;
    assert!(before.iter().all(|(_, state)| state.lost.is_empty()));
    // The loser changes and changes back.
    tracker.apply(no_service("thief"));
    assert_eq!(dirty(&tracker), ["thief"]);
    tracker.apply(thief());
    assert!(dirty(&tracker).is_empty());
    // The address becomes the loser's, which itself has not changed.
    tracker.apply(no_service("web"));
    assert_eq!(dirty(&tracker), ["thief", "web"]);
    let before = tracker.mark_applied().before;
    let (_, before) = before.iter().find(|(of, _)| *of == name("thief")).unwrap();
    assert_eq!(before.lost.len(), 1);
    // Both go away and come back in the other order.
    tracker.apply(web());
    tracker.mark_applied();
    tracker.apply(no_service("thief"));
    tracker.apply(no_service("web"));
    tracker.apply(thief());
    assert_eq!(dirty(&tracker), ["thief", "web"]);
    tracker.apply(web());
    assert!(dirty(&tracker).is_empty());
}

/// However many Services ask for one address, a change of one of them concerns two.
#[test]
fn a_change_among_thousands_of_claims_makes_two_services_dirty() {
    const COUNT: usize = 20_000;
    let shared = "203.0.113.1";
    let claim = |number: usize, external: &[&str]| {
        let ip = format!("172.16.{}.{}", number / 256, number % 256);
        with(&format!("s{number:05}"), [&[&ip], &[], external])
    };
    let mut tracker = applied((0..COUNT).map(|number| claim(number, &[shared])));
    assert_eq!(tracker.frontend_conflicts(), 1);
    assert_eq!(tracker.lost_frontends().count(), COUNT - 1);
    // The first by name changes its address each time.
    for round in 0..4 {
        let other = ["203.0.113.2", shared][round % 2];
        tracker.apply(claim(0, &[other]));
        let dirty: Vec<_> = tracker.dirty().map(|name| name.name().to_owned()).collect();
        assert_eq!(dirty, ["s00000", "s00001"]);
        let lost = tracker.lost_frontends().next().unwrap();
        let owner = ["s00001", "s00000"][round % 2];
        assert_eq!((lost.owner.name(), lost.kind()), (owner, "ExternalIP"));
        tracker.mark_applied();
    }
    // A loser that leaves concerns itself alone.
    tracker.apply(claim(COUNT - 1, &[]));
    assert_eq!(tracker.dirty().count(), 1);
}
