//! Dispatch chains that a second proxy repairs as well.

use std::collections::BTreeSet;

use super::compare::{
    compare_contested, edit, edited, flush_nat, node, node_with, rule, scopes, sorted, touched_by,
};
use super::tree_chains::TREE;
use super::*;
use crate::host::Fault;
use crate::render::TreeThresholds;
use crate::rules::Table;
use crate::sync::schedule::SyncResult;

/// Two programs that append a rule twice and delete both never agree.
#[tokio::test]
async fn a_contested_dispatch_chain_is_rewritten_as_a_whole() {
    let mut syncer = node().await;
    let before = sorted(&syncer);
    let dispatch = rule(&syncer, Table::Nat, &["-A KUBE-SERVICES", "ns/2"]);
    let contested = BTreeSet::from([(Table::Nat, Box::from("KUBE-SERVICES"))]);
    for damage in [format!("-D {dispatch}"), format!("-A {dispatch}")] {
        let drift = edited(&mut syncer, &[&damage], &contested).await;
        assert_eq!(drift.chains, contested, "{damage}");
        let outcome = syncer.once(&[]).await;
        assert_eq!(scopes(&outcome), [Scope::Partial]);
        let payload = syncer.iptables().take_payloads().concat();
        assert!(payload.contains(":KUBE-SERVICES - [0:0]"), "{payload}");
        assert!(!payload.contains("-D "), "{payload}");
        assert_eq!(sorted(&syncer), before, "{damage}");
    }
}

/// A delayed sync would otherwise write the chain again long after the two agree, and the second
/// proxy would take that for a change.
#[tokio::test]
async fn a_chain_that_the_second_proxy_has_repaired_is_not_written_again() {
    for thresholds in [TreeThresholds::FLAT, TREE] {
        let mut syncer = node_with(thresholds).await;
        let before = syncer.iptables().rules();
        let contested = BTreeSet::from([(Table::Nat, Box::from("KUBE-SERVICES"))]);
        let change = edit(syncer.iptables(), Table::Nat, &["-F KUBE-SERVICES"]);
        let extent = touched_by(&syncer, &change);
        let drift = compare_contested(&mut syncer, &extent, &contested).await;
        assert_eq!(drift.chains, contested);
        syncer.iptables().set_rules(before);
        let drift = compare_contested(&mut syncer, &extent, &contested).await;
        assert!(drift.is_empty(), "{drift:?}");
        syncer.once(&[]).await;
        assert_eq!(syncer.iptables().take_payloads(), Vec::<String>::new());
    }
}

/// Until a delayed repair, another program may change the table again.
#[tokio::test]
async fn a_delayed_restore_after_a_flush_reads() {
    let mut syncer = node().await;
    let contested = BTreeSet::from([(Table::Nat, Box::from("*"))]);
    flush_nat(&mut syncer, &contested).await;
    syncer.iptables().inject(Fault::Save);
    assert_eq!(syncer.once(&[]).await.result(), SyncResult::Failed);
}
