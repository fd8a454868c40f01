//! Searches that find a fault of the node after they have restored some rules.

use super::search::{
    POISON, assert_rules, changed, changes, endpoint, rules_of, sync_applied, synced,
};
use super::*;
use crate::host::{Fault, Poison};

/// The trial before it, a full restore that succeeded, had withdrawn the request for a full sync.
#[tokio::test]
async fn a_search_that_ends_with_an_unknown_kernel_is_followed_by_a_full_sync() {
    let mut syncer = changed(POISON, Poison::Commit, changes(&[4])).await;
    // Both attempts fail at the poison, the trial without changes succeeds.
    for fault in [
        Fault::None,
        Fault::None,
        Fault::None,
        Fault::LockedAfterFirst,
    ] {
        syncer.iptables().inject(fault);
    }
    let outcome = syncer.once(&[]).await;
    assert!(outcome.search.unwrap().node_fault.is_some());
    syncer.iptables().set_poisons(&[]);
    let outcome = sync_applied(&mut syncer).await;
    assert_eq!(outcome.attempts[0].scope, Scope::Full(FullReason::Failed));
    assert_rules(&syncer, &rules_of(changes(&[4])).await);
}

/// A rejected line names a Service, which is then rendered without endpoints; but the search finds
/// a fault of the node.
#[tokio::test]
async fn a_node_fault_leaves_the_quarantine_as_it_was() {
    let moved = || (4..=6).map(|number| endpoint(number, 7));
    let poisons = [(".7:80", Poison::Commit)];
    let one = |number| format!("10.0.{number}.1:80");
    // Of a Service that did not change, and of one in quarantine, whose change is not applied.
    for (number, fails) in [(2, None), (3, Some(endpoint(3, 66)))] {
        let mut syncer = synced().await;
        if let Some(change) = fails.clone() {
            syncer.iptables().set_poisons(&[(POISON, Poison::Line)]);
            syncer.tracker.apply(change);
            sync_applied(&mut syncer).await;
        }
        let text = one(number);
        let rejected = [(&*text, Poison::Line), (POISON, Poison::Line)];
        syncer
            .iptables()
            .set_poisons(&[&rejected[..], &poisons].concat());
        moved().for_each(|change| syncer.tracker.apply(change));
        let outcome = syncer.once(&[]).await;
        assert!(outcome.search.unwrap().node_fault.is_some(), "{number}");
        assert_eq!(outcome.quarantined.len(), usize::from(fails.is_some()));
        let rules = syncer.iptables().rules().to_save_text();
        assert!(
            !rules.contains(&text),
            "{number}: the search wrote rules without it"
        );
        syncer.iptables().set_poisons(&[(POISON, Poison::Line)]);
        sync_applied(&mut syncer).await;
        assert_rules(&syncer, &rules_of(moved()).await);
    }
}
