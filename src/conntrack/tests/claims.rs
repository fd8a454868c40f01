//! Claims follow the Services, whatever becomes of them.

use super::*;

/// Goes from world to world and compares with what a new process would know.
#[track_caller]
fn follow(worlds: &[&[(&str, Shop)]]) {
    let mut before = World::default();
    let mut known = Claims::default();
    for (step, shops) in worlds.iter().enumerate() {
        let now = world(shops);
        left_behind(&changes(&before, &now), &now, &options(), &mut known);
        assert_eq!(known, claims(&now), "step {step}");
        before = now;
    }
    assert_eq!(known, Claims::default(), "all are gone");
}

#[test]
fn claims_end_with_their_services() {
    let node_port = Shop {
        node_port: Some(30_053),
        ..SHOP
    };
    let moved = Shop { port: 54, ..SHOP };
    let tcp = Shop {
        protocol: Protocol::Tcp,
        ..SHOP
    };
    let one = |shop: &Shop| [("shop", shop.clone())];
    follow(&[
        &one(&node_port),
        &one(&SHOP),
        &one(&moved),
        &one(&moved),
        &one(&tcp),
        &one(&node_port),
        &[],
    ]);
}

#[test]
fn what_several_claim_is_claimed_until_the_last_one_goes() {
    let other = || Shop {
        ips: &["10.96.0.11", "203.0.113.1"],
        ..SHOP
    };
    // One address as the load balancer's and as an external one is one claim.
    let both = || Shop {
        ips: &["10.96.0.12", "203.0.113.1", "203.0.113.1"],
        ..SHOP
    };
    follow(&[
        &[("a", other()), ("b", both())],
        &[("b", both())],
        &[("b", both()), ("c", other())],
        &[("c", other())],
        &[],
    ]);
}

#[test]
fn an_address_that_is_there_twice_is_not_looked_at_for_that() {
    let shop = |endpoints| Shop {
        ips: &["10.96.0.10", "203.0.113.1", "203.0.113.1"],
        endpoints,
        ..SHOP
    };
    let gained = change(
        Some(shop(&["10.4.0.1"])),
        Some(shop(&["10.4.0.1", "10.4.0.2"])),
    );
    assert!(gained.is_empty(), "{gained:#?}");
}
