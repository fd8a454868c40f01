//! What becomes of flows when Services and endpoints come, go and change.

use super::*;
use crate::model::{ExternalIps, MOST_ENDPOINTS};

#[test]
fn an_endpoint_that_is_gone_takes_its_flows_along() {
    change(Some(SHOP), Some(with(&["10.4.0.2", "10.4.0.3"]))).check(&[
        "10.96.0.10:53 10.4.0.1:5353 goes",
        "10.96.0.10:53 10.4.0.2:5353 stays",
        "10.96.0.10:53 10.4.0.3:5353 stays",
        // Another port is another thing, on either side.
        "10.96.0.10:53 10.4.0.2:53 goes",
        "10.96.0.10:54 10.4.0.1:5353 stays",
        // Not by way of the Service.
        "10.4.0.1:5353 10.4.0.1:5353 stays",
        "8.8.8.8:53 8.8.8.8:53 stays",
    ]);
}

#[test]
fn all_addresses_and_the_node_port_are_looked_at() {
    let before = Shop {
        node_port: Some(30053),
        ..at(&["10.96.0.10", "203.0.113.1", "198.51.100.1"])
    };
    let now = Shop {
        endpoints: &["10.4.0.2"],
        ..before.clone()
    };
    change(Some(before), Some(now)).check(&[
        "10.96.0.10:53 10.4.0.1:5353 goes",
        "203.0.113.1:53 10.4.0.1:5353 goes",
        "203.0.113.1:53 10.4.0.2:5353 stays",
        "198.51.100.1:53 10.4.0.1:5353 goes",
        "192.168.0.2:30053 10.4.0.1:5353 goes",
        "192.168.0.2:30053 10.4.0.2:5353 stays",
        // Another Service's port of the same number.
        "192.168.0.3:30053 192.168.0.3:30053 stays",
        "192.168.0.3:30053 10.4.0.1:5353 stays",
    ]);
}

#[test]
fn external_ips_that_are_no_destinations_are_left_alone() {
    let shop = at(&["10.96.0.10", "203.0.113.1", "198.51.100.1"]);
    let options = Options {
        external_ips: ExternalIps::Ignored,
        ..options()
    };
    let before = [(name("shop"), ServiceState::default())];
    let now = world(&[("shop", shop)]);
    stale_candidates(&before, &now, &options).check(&[
        "198.51.100.1:53 198.51.100.1:53 stays",
        "203.0.113.1:53 203.0.113.1:53 goes",
    ]);
}

#[test]
fn conditions_decide_who_keeps_flows() {
    let now = with(&["10.4.0.1", "-10.4.0.2", "+10.4.0.3", "~10.4.0.4"]);
    change(Some(SHOP), Some(now)).check(&[
        "10.96.0.10:53 10.4.0.1:5353 stays",
        "10.96.0.10:53 10.4.0.2:5353 goes",
        "10.96.0.10:53 10.4.0.3:5353 stays",
        "10.96.0.10:53 10.4.0.4:5353 stays",
    ]);
}

/// Its port is refused.
#[test]
fn of_too_many_endpoints_none_keeps_its_flows() {
    let crowd = Shop {
        endpoints: vec!["10.4.0.1"; MOST_ENDPOINTS + 1].leak(),
        ..SHOP
    };
    change(Some(SHOP), Some(crowd)).check(&["10.96.0.10:53 10.4.0.1:5353 goes"]);
}

#[test]
fn a_port_that_changes_takes_its_flows_along() {
    let before = Shop {
        node_port: Some(30053),
        ..SHOP
    };
    let now = Shop {
        port: 54,
        node_port: Some(30054),
        ..SHOP
    };
    change(Some(before.clone()), Some(now)).check(&[
        "10.96.0.10:53 10.4.0.1:5353 goes",
        "10.96.0.10:53 10.96.0.10:53 stays",
        "192.168.0.2:30053 10.4.0.1:5353 goes",
        "192.168.0.2:30053 192.168.0.2:30053 stays",
        // Before there were rules.
        "10.96.0.10:54 10.96.0.10:54 goes",
        "192.168.0.2:30054 192.168.0.2:30054 goes",
    ]);
    let target = Shop {
        target: 5354,
        ..before.clone()
    };
    change(Some(before.clone()), Some(target)).check(&[
        "10.96.0.10:53 10.4.0.1:5353 goes",
        "10.96.0.10:53 10.4.0.1:5354 stays",
    ]);
    let other_ip = Shop {
        ips: &["10.96.0.11"],
        ..before.clone()
    };
    change(Some(before), Some(other_ip)).check(&[
        "10.96.0.10:53 10.4.0.1:5353 goes",
        "192.168.0.2:30053 10.4.0.1:5353 stays",
    ]);
}

#[test]
fn the_first_endpoint_gets_the_flows_from_before_it() {
    let none = with(&[]);
    change(Some(none), Some(SHOP)).check(&[
        "10.96.0.10:53 10.96.0.10:53 goes",
        "10.96.0.10:53 10.4.0.1:5353 stays",
    ]);
    change(None, Some(SHOP)).check(&["10.96.0.10:53 10.96.0.10:53 goes"]);
}

#[test]
fn what_cannot_make_a_flow_stale_is_not_looked_at() {
    let more = with(&["10.4.0.1", "10.4.0.2", "10.4.0.3"]);
    let leaving = with(&["10.4.0.1", "+10.4.0.2"]);
    let none = with(&[]);
    let [tcp, sctp] = [Protocol::Tcp, Protocol::Sctp].map(|protocol| Shop { protocol, ..SHOP });
    for (before, now) in [
        (Some(SHOP), Some(more)),
        (Some(SHOP), Some(leaving)),
        (Some(none.clone()), Some(none)),
        (Some(tcp.clone()), None),
        (None, Some(tcp)),
        (Some(sctp), None),
    ] {
        assert!(change(before, now).is_empty());
    }
}

#[test]
fn another_service_may_have_what_one_has_given_up() {
    let heir = with(&["10.4.0.2", "10.4.0.9"]);
    let now = world(&[("new", heir.clone())]);
    for before in [
        world(&[("first", SHOP)]),
        // The same if the other one asked for it all the time.
        world(&[("first", SHOP), ("new", heir)]),
    ] {
        let mut changed = changes(&before, &now);
        changed.retain(|(name, state)| now.get(name) != Some(state));
        stale_candidates(&changed, &now, &options()).check(&[
            "10.96.0.10:53 10.4.0.1:5353 goes",
            "10.96.0.10:53 10.4.0.2:5353 stays",
            "10.96.0.10:53 10.4.0.9:5353 stays",
            "10.96.0.10:53 10.96.0.10:53 goes",
        ]);
    }
}

#[test]
fn after_a_flush_everybody_is_looked_at() {
    let (other, deleted) = (at(&["10.96.0.11"]), at(&["10.96.0.13"]));
    let before = world(&[("shop", SHOP), ("other", other.clone()), ("gone", deleted)]);
    let now = world(&[("shop", SHOP), ("other", other)]);
    let mut deleted = changes(&before, &now);
    deleted.retain(|(name, _)| !now.contains_key(name));
    all_candidates(&deleted, &now, &options()).check(&[
        "10.96.0.13:53 10.4.0.1:5353 goes",
        "10.96.0.10:53 10.4.0.1:5353 stays",
        "10.96.0.10:53 10.96.0.10:53 goes",
        "10.96.0.11:53 10.96.0.11:53 goes",
        "10.96.0.12:53 10.96.0.12:53 stays",
    ]);
}

#[test]
fn an_address_that_is_there_twice_is_not_looked_at_for_that() {
    let shop = |endpoints| Shop {
        endpoints,
        ..at(&["10.96.0.10", "203.0.113.1", "203.0.113.1"])
    };
    let (one, two) = (shop(&["10.4.0.1"]), shop(&["10.4.0.1", "10.4.0.2"]));
    let gained = change(Some(one), Some(two));
    assert!(gained.is_empty(), "{gained:#?}");
}

#[test]
fn endpoints_of_a_service_that_lost_an_address_change_nothing_there() {
    let before = world(&[("a", SHOP), ("b", with(&["10.4.0.8", "10.4.0.9"]))]);
    let now = world(&[("a", SHOP), ("b", with(&["10.4.0.8"]))]);
    assert!(stale_candidates(&changes(&before, &now), &now, &options()).is_empty());
}
