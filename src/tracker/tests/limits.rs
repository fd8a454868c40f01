//! Which Services are over the limits of their namespace, and which are dirty for that.

use super::*;
use crate::model::{
    Allowance, Frontend, MOST_ENDPOINTS, MOST_RULES_WITHOUT_ENDPOINTS, NamespaceLimits,
    ServiceState, Services,
};

const LIMITS: NamespaceLimits = NamespaceLimits {
    endpoints: 20,
    rules_without_endpoints: 10,
};

fn tracker() -> Tracker {
    Tracker::new(STARTED).with_limits(LIMITS)
}

/// A slice of this name with so many endpoints.
fn sized(called: &str, of: &str, endpoints: usize) -> Change {
    let ips: Vec<String> = (1..=endpoints).map(|n| format!("10.0.0.{n}")).collect();
    let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
    slice(called, of, &ips, None)
}

/// A Service with so many ports.
fn with_ports(of: &str, ports: u16) -> Change {
    edited(of, |service| {
        let port = |number| ServicePort::tcp(&format!("p{number:05}"), number);
        service.ports = (1..=ports).map(port).collect();
    })
}

fn not_full(tracker: &Tracker) -> Vec<(&str, Allowance)> {
    let all = tracker.all();
    let all = all.map(|(name, state)| (name.name(), state.allowance));
    let not_full = all.filter(|(_, allowance)| *allowance != Allowance::Full);
    not_full.collect()
}

fn rejected(tracker: &Tracker) -> Vec<&str> {
    let all = not_full(tracker).into_iter();
    all.filter(|(_, allowance)| *allowance == Allowance::NoEndpoints)
        .map(|(name, _)| name)
        .collect()
}

fn dirty(tracker: &Tracker) -> Vec<&str> {
    tracker.dirty().map(ServiceName::name).collect()
}

/// Services with so many endpoints each.
fn services(sizes: &[(&str, usize)]) -> Vec<Change> {
    let both = |(of, size): &(&str, usize)| [service(of, 80), sized(of, of, *size)];
    sizes.iter().flat_map(both).collect()
}

#[test]
fn the_largest_services_of_a_namespace_over_the_limit_are_rejected() {
    let mut tracker = tracker();
    tell(&mut tracker, services(&[("a", 9), ("b", 6), ("c", 5)]));
    assert!(not_full(&tracker).is_empty());
    tracker.mark_applied();
    // One more endpoint is too many; of all three, `a` is the largest.
    tracker.apply(sized("more", "c", 1));
    assert_eq!(rejected(&tracker), ["a"]);
    assert_eq!(dirty(&tracker), ["a", "c"]);
    let mut before = tracker.mark_applied().before.into_iter();
    assert!(before.all(|(_, state)| state.allowance == Allowance::Full));
    // What `a` has does not count any more.
    tell(&mut tracker, services(&[("d", 8)]));
    assert_eq!(rejected(&tracker), ["a"]);
}

#[test]
fn of_equally_large_services_the_last_by_name_is_rejected() {
    for sizes in [[("a", 11), ("b", 11)], [("b", 11), ("a", 11)]] {
        let mut tracker = tracker();
        let mut changes = services(&sizes);
        changes.push(Change::Listed(Kind::Service));
        tell(&mut tracker, changes);
        assert_eq!(rejected(&tracker), ["b"]);
    }
}

#[test]
fn a_rejected_service_returns_when_the_namespace_is_well_within_the_limit() {
    let mut tracker = tracker();
    tell(&mut tracker, services(&[("a", 12), ("b", 9)]));
    tracker.mark_applied();
    assert_eq!(rejected(&tracker), ["a"]);
    // 20 and 19 are within the limit, 18 are well within it.
    for size in [8, 7] {
        tracker.apply(sized("b", "b", size));
        assert_eq!(rejected(&tracker), ["a"]);
    }
    tracker.apply(sized("b", "b", 6));
    assert!(not_full(&tracker).is_empty());
    assert_eq!(dirty(&tracker), ["a", "b"]);
    let before = tracker.mark_applied().before;
    assert_eq!(before[0].1.allowance, Allowance::NoEndpoints);
    // It also returns when it shrinks itself, or the other is deleted.
    tracker.apply(sized("b", "b", 9));
    assert_eq!(rejected(&tracker), ["a"]);
    tracker.apply(sized("a", "a", 9));
    assert!(not_full(&tracker).is_empty());
    tell(&mut tracker, [sized("a", "a", 12), no_service("b")]);
    assert!(not_full(&tracker).is_empty());
}

#[test]
fn a_service_that_is_rejected_and_returns_before_a_sync_is_not_dirty() {
    let mut tracker = tracker();
    tell(&mut tracker, services(&[("a", 12), ("b", 6)]));
    tracker.mark_applied();
    tracker.apply(sized("more", "b", 3));
    assert_eq!(dirty(&tracker), ["a", "b"]);
    tracker.apply(no_slice("more"));
    assert!(dirty(&tracker).is_empty());
}

/// Two Services take turns at being the larger one; the rules of neither change.
#[test]
fn services_that_take_turns_at_being_the_largest_keep_their_rules() {
    let mut tracker = tracker();
    tell(&mut tracker, services(&[("a", 15), ("b", 14)]));
    tracker.mark_applied();
    for turn in 0..10 {
        let size = if turn % 2 == 0 { 16 } else { 14 };
        tracker.apply(sized("b", "b", size));
        assert_eq!(rejected(&tracker), ["a"]);
        assert_eq!(dirty(&tracker), ["b"]);
        tracker.mark_applied();
    }
}

/// A namespace goes back and forth over the limit, and the largest Service does not.
#[test]
fn a_change_back_and_forth_over_the_limit_rejects_once() {
    let mut tracker = tracker();
    tell(&mut tracker, services(&[("a", 15), ("b", 5)]));
    tracker.mark_applied();
    for turn in 0..10 {
        tracker.apply(sized("b", "b", 6 - turn % 2));
        assert_eq!(rejected(&tracker), ["a"]);
        let applied = tracker.mark_applied().before;
        let all: &[&str] = if turn == 0 { &["a", "b"] } else { &["b"] };
        let names: Vec<_> = applied.iter().map(|(name, _)| name.name()).collect();
        assert_eq!(names, all);
    }
}

#[test]
fn after_a_list_the_choice_depends_on_the_objects_alone() {
    let sizes = [("a", 8), ("b", 9), ("c", 7)];
    let changes = services(&sizes);
    for rotated in 0..changes.len() {
        let mut changes = changes.clone();
        changes.rotate_left(rotated);
        let mut tracker = tracker();
        tell(&mut tracker, changes);
        tracker.apply(Change::Listed(Kind::EndpointSlice));
        assert_eq!(rejected(&tracker), ["b"], "rotated by {rotated}");
    }
}

#[test]
fn only_endpoints_of_ports_of_the_service_count() {
    let mut tracker = tracker();
    tell(&mut tracker, services(&[("a", 15)]));
    // Slices without a Service, or of ports that it does not have.
    tracker.apply(sized("b", "b", 15));
    tracker.apply(with_ports("c", 1));
    tracker.apply(sized("c", "c", 15));
    assert!(not_full(&tracker).is_empty());
    // They count as soon as there is a port of theirs, and as often as they are there.
    tracker.apply(service("b", 80));
    assert_eq!(rejected(&tracker), ["b"]);
    tracker.apply(no_service("b"));
    assert!(not_full(&tracker).is_empty());
    tracker.apply(sized("again", "a", 15));
    assert_eq!(rejected(&tracker), ["a"]);
    // The Service with its slices goes, and comes back.
    let gone = [no_service("a"), no_slice("a"), no_slice("again")];
    tell(&mut tracker, gone);
    assert_eq!(tracker.get(&name("a")), None);
    tell(&mut tracker, services(&[("a", 15)]));
    assert!(not_full(&tracker).is_empty());
}

#[test]
fn ports_times_addresses_and_ranges_of_a_namespace_are_limited() {
    let mut tracker = tracker();
    tell(&mut tracker, [with_ports("a", 6), with_ports("b", 4)]);
    assert!(not_full(&tracker).is_empty());
    tracker.mark_applied();
    let Change::Service(name, Some(mut service)) = with_ports("b", 4) else {
        unreachable!("it is there");
    };
    service.source_ranges = ["203.0.113.0/24".parse().unwrap()].into();
    tracker.apply(Change::Service(name, Some(service)));
    assert_eq!(not_full(&tracker), [("b", Allowance::NoRules)]);
    assert_eq!(dirty(&tracker), ["b"]);
    tracker.apply(with_ports("b", 3));
    assert!(not_full(&tracker).is_empty());
}

/// Without claims to external IPs it does not keep others from them; with one to its cluster IP
/// nothing else takes that over.
#[test]
fn a_service_without_rules_claims_its_cluster_ip_alone() {
    let mut tracker = tracker();
    let Change::Service(of, Some(mut thief)) = with_ports("a", 6) else {
        unreachable!("it is there");
    };
    let Change::Service(victim, Some(second)) = with_ports("b", 1) else {
        unreachable!("it is there");
    };
    thief.external_ips = [second.cluster_ip].into();
    tracker.apply(Change::Service(victim.clone(), Some(second)));
    tracker.apply(Change::Service(of.clone(), Some(thief.clone())));
    assert_eq!(not_full(&tracker), [("a", Allowance::NoRules)]);
    assert_eq!(tracker.frontend_conflicts(), 0);
    assert!(tracker.get(&of).unwrap().lost.is_empty());
    let own = Frontend::Address(thief.cluster_ip, port(1), Protocol::Tcp);
    let foreign = Frontend::Address(thief.external_ips[0], port(1), Protocol::Tcp);
    assert_eq!(tracker.frontend_owner(&own), Some(&of));
    assert_eq!(tracker.frontend_owner(&foreign), Some(&victim));
    // With fewer ports it asks for the address again.
    thief.ports = thief.ports[..4].into();
    tracker.apply(Change::Service(of.clone(), Some(thief.clone())));
    assert!(not_full(&tracker).is_empty());
    assert_eq!(tracker.frontend_conflicts(), 1);
    assert_eq!(tracker.get(&of).unwrap().lost.len(), 1);
    // Another Service that comes makes it lose its rules, and its claims.
    tracker.apply(with_ports("c", 3));
    assert_eq!(not_full(&tracker), [("a", Allowance::NoRules)]);
    assert_eq!(tracker.frontend_conflicts(), 0);
}

/// Otherwise one that is alone in its namespace could be left out for ever.
#[test]
fn a_service_within_its_own_limits_can_always_return() {
    let limits = NamespaceLimits::DEFAULT;
    let (endpoints, rules) = (limits.endpoints, limits.rules_without_endpoints);
    assert!(MOST_ENDPOINTS <= endpoints - endpoints / 10);
    assert!(MOST_RULES_WITHOUT_ENDPOINTS <= rules - rules / 10);
}

/// The endpoints of a Service, counted.
fn counted(state: &ServiceState) -> usize {
    let service = state.service.as_ref();
    let slices = state.slices.iter();
    service.map_or(0, |service| {
        slices.map(|(_, slice)| service.endpoints_in(slice)).sum()
    })
}

/// Random changes; what is kept step by step is what is found by counting.
#[test]
fn sizes_follow_every_change() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut next = |below: usize| random.usize(..below);
    let mut tracker = tracker();
    let names = ["a", "b", "c", "d", "e"];
    for _ in 0..5000 {
        let (of, called) = (names[next(5)], names[next(5)]);
        tracker.apply(match next(8) {
            0 => no_service(of),
            1 => service(of, 80),
            2 => with_ports(of, u16::try_from(1 + next(5)).unwrap()),
            3 => no_slice(called),
            4 => Change::Listed(Kind::Node),
            _ => sized(called, of, next(12)),
        });
        if next(10) == 0 {
            tracker.mark_applied();
        }
        let states = tracker.all().map(|(_, state)| state);
        let within = states.filter(|state| state.allowance == Allowance::Full);
        let total: usize = within.map(counted).sum();
        assert!(total <= LIMITS.endpoints);
        let must_stay_out = |of: &&str| {
            let own = counted(tracker.get(&name(of)).unwrap());
            total + own > LIMITS.endpoints - LIMITS.endpoints / 10
        };
        let is_full = total + 9 > LIMITS.endpoints;
        assert!(is_full || rejected(&tracker).iter().all(must_stay_out));
    }
}
