//! Tests of `kernel`.

use super::*;

#[test]
fn the_log_names_the_first_chains_and_counts_the_rest() {
    let mut drift = Drift::default();
    assert!(drift.is_empty());
    drift.add_unnamed(Table::Nat, DriftKind::ServiceChain, 0);
    assert!(drift.is_empty());
    for chain in ["A", "B", "C", "D", "E", "F", "G"] {
        drift.add(Table::Nat, DriftKind::ServiceChain, chain);
    }
    assert_eq!(
        drift.chain_names(),
        "nat A, nat B, nat C, nat D, nat E and 2 more"
    );
    let counted = drift.counts.get(&(Table::Nat, DriftKind::ServiceChain));
    assert_eq!(counted, Some(&7));
}

#[test]
fn services_unlike_rendered_are_named_apart_from_chains_of_other_programs() {
    let mut drift = Drift::default();
    drift.add_unlike_rendered(ServiceName::new("shop", "dns"));
    drift.add_unlike_rendered(ServiceName::new("shop", "web"));
    assert!(!drift.is_empty());
    assert_eq!(drift.service_names(), "shop/dns, shop/web");
    assert_eq!(drift.chain_names(), "");
    // No repair is delayed because of them: no other program changes them back.
    assert!(drift.repair_keys.is_empty());
}
