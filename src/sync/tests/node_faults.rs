//! Searches that find a fault of the node after they have restored some rules.

use super::compare::{compare, edit, rule};
use super::search::{
    POISON, WAYS, assert_rules, changed, changes, clock, endpoint, name, rules_of, sync_applied,
    synced,
};
use super::syncer::{apply, service, syncer};
use super::*;
use crate::host::{Fault, Poison};
use crate::rules::Table;
use crate::sync::kernel::Extent;

/// The kernel may have a part of what the trial that failed has written.
#[tokio::test]
async fn a_search_that_ends_with_damage_is_followed_by_its_repair() {
    let mut syncer = changed(POISON, Poison::Commit, changes(&[4])).await;
    // Both attempts fail at the poison, the trial without changes succeeds.
    for _ in 0..3 {
        syncer.iptables().inject(Fault::None);
    }
    syncer.iptables().inject(Fault::LockedAfterFirst);
    let outcome = syncer.once(&[]).await;
    assert!(outcome.search.unwrap().node_fault.is_some());
    syncer.iptables().set_poisons(&[]);
    let outcome = sync_applied(&mut syncer).await;
    assert_eq!(outcome.attempts[0].scope, Scope::Partial);
    assert_rules(&syncer, &rules_of(changes(&[4])).await);
}

/// The kernel rejects the rules of every Service now. One is in quarantine before, or none.
#[tokio::test]
async fn a_node_fault_leaves_the_quarantine_as_it_was() {
    let moved = || (4..=6).map(|number| endpoint(number, 7));
    for fails in [None, Some(endpoint(3, 66))] {
        let mut syncer = synced().await;
        if let Some(change) = fails.clone() {
            syncer.iptables().set_poisons(&[(POISON, Poison::Line)]);
            syncer.tracker.apply(change);
            sync_applied(&mut syncer).await;
        }
        let rules = syncer.iptables().rules();
        for how in WAYS {
            syncer.iptables().set_poisons(&[("-j DNAT", how)]);
            apply(&mut syncer, moved());
            let outcome = syncer.once(&[]).await;
            assert!(outcome.search.unwrap().node_fault.is_some(), "{how:?}");
            let expected: Vec<_> = fails.iter().map(|_| name(3)).collect();
            assert_eq!(outcome.overridden, expected, "{how:?}");
            assert_rules(&syncer, &rules);
        }
        syncer.iptables().set_poisons(&[(POISON, Poison::Line)]);
        sync_applied(&mut syncer).await;
        assert_rules(&syncer, &rules_of(moved()).await);
    }
}

/// A search writes it without rules, to go on, before it finds that the node is at fault.
#[tokio::test]
async fn a_damaged_service_gets_its_rules_back_after_a_node_fault() {
    for how in WAYS {
        let mut syncer = synced().await;
        let jump = rule(&syncer, Table::Nat, &["-A KUBE-SERVICES", "ns/2"]);
        let chain = jump.split(' ').next_back().unwrap().to_owned();
        edit(syncer.iptables(), Table::Nat, &[&format!("-F {chain}")]);
        assert!(!compare(&mut syncer, &Extent::whole()).await.is_empty());
        let poisons = ["-j DNAT", "-j KUBE-SEP-"].map(|text| (text, how));
        syncer.iptables().set_poisons(&poisons);
        syncer.tracker.apply(endpoint(4, 7));
        let outcome = syncer.once(&[]).await;
        assert!(outcome.search.unwrap().node_fault.is_some(), "{how:?}");
        syncer.iptables().set_poisons(&[]);
        sync_applied(&mut syncer).await;
        assert_rules(&syncer, &rules_of([endpoint(4, 7)]).await);
    }
}

/// A full restore would name a Service that did not change, whose rules the kernel has.
#[tokio::test]
async fn a_service_that_did_not_change_keeps_its_rules() {
    let mut syncer = synced().await;
    let poisons = [("10.0.2.1:80", Poison::Line), (".7:80", Poison::Commit)];
    syncer.iptables().set_poisons(&poisons);
    apply(&mut syncer, [endpoint(4, 7), endpoint(5, 9)]);
    let outcome = sync_applied(&mut syncer).await;
    assert_eq!(outcome.overridden, [name(4)]);
    assert_rules(&syncer, &rules_of([endpoint(5, 9)]).await);
}

/// The lock shows nothing about the next restore, so the next sync searches.
#[tokio::test]
async fn a_busy_lock_in_the_first_search_delays_no_other() {
    let mut syncer = syncer(clock, Vec::new());
    for number in 1..=5 {
        let changes = [service(number, true), endpoint(number, number)];
        apply(&mut syncer, changes);
    }
    syncer.iptables().set_poisons(&[("ns/4", Poison::Line)]);
    // The full restore fails at the poison, and the first trial at the lock.
    for fault in [Fault::None, Fault::Locked] {
        syncer.iptables().inject(fault);
    }
    let outcome = syncer.once(&[]).await;
    assert!(outcome.search.unwrap().node_fault.is_some());
    assert_eq!(outcome.overridden, []);
    let outcome = sync_applied(&mut syncer).await;
    assert_eq!(outcome.overridden, [name(4)]);
}
