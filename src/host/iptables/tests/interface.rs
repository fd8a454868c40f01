//! Tests of `interface`.

use super::*;

#[test]
fn a_flush_of_many_chains_has_an_unknown_extent() {
    let mut change = ForeignChange::default();
    for number in 0..MOST_CHAINS {
        change.touch(Table::Nat, &format!("KUBE-SEP-{number}"));
    }
    change.touch(Table::Nat, "KUBE-SEP-0");
    assert_eq!(change.chains.count_named(Table::Nat), MOST_CHAINS);
    assert!(change.is_exact());
    change.touch(Table::Nat, "KUBE-SERVICES");
    assert_eq!(change.chains, ChainSet::of_tables([Table::Nat]));
    assert!(!change.is_exact());
    change.touch(Table::Nat, "KUBE-NODEPORTS");
    assert_eq!(change.chains, ChainSet::of_tables([Table::Nat]));
}

#[test]
fn merged_changes_keep_the_larger_extent_and_the_less_certain_source() {
    let mut change = ForeignChange::default();
    change.touch(Table::Filter, "KUBE-FORWARD");
    change.by("nft");
    let lost = ForeignChange::unknown(ChangeSource::LostEvents, [Table::Nat]);
    change.merge(&lost);
    assert_eq!(change.source, ChangeSource::LostEvents);
    assert!(change.chains.has_table(Table::Nat));
    assert_eq!(change.programs.len(), 1);
    assert!(!change.is_empty());
    assert!(ForeignChange::default().is_empty());
}
