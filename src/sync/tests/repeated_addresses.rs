//! Services that name one external IP several times, as the API allows: each has a rule of its own,
//! as with kube-proxy, and the rules are equal.

use std::collections::BTreeSet;

use super::compare::{assert_no_drift, checked, compare, edit, edited, node_with, rule, scopes};
use super::frontends::with;
use super::search::{endpoint, sync_applied};
use super::syncer::apply;
use super::tree_chains::TREE;
use super::*;
use crate::host::Fake;
use crate::render::TreeThresholds;
use crate::rules::Table;
use crate::sync::kernel::Extent;

const REPEATED: &str = "203.0.113.1";

/// A node with a Service that names [`REPEATED`] twice.
async fn node(thresholds: TreeThresholds) -> Syncer<Fake> {
    let mut syncer = node_with(thresholds).await;
    let service = with(7, &[REPEATED, "203.0.113.2", REPEATED]);
    apply(&mut syncer, [service, endpoint(7, 9)]);
    sync_applied(&mut syncer).await;
    syncer.iptables().take_payloads();
    syncer
}

/// Number of the equal rules in the kernel.
fn count(syncer: &Syncer<Fake>) -> usize {
    let save = syncer.iptables().rules().to_save_text();
    save.matches(REPEATED).count()
}

#[tokio::test]
async fn equal_rules_are_no_drift() {
    for thresholds in [TreeThresholds::FLAT, TREE] {
        let mut syncer = node(thresholds).await;
        assert_eq!(count(&syncer), 2);
        let drift = compare(&mut syncer, &Extent::whole()).await;
        assert!(drift.is_empty(), "whole tables: {drift:?}");
        let commands = &["-A KUBE-SERVICES -j ACCEPT", "-D KUBE-SERVICES -j ACCEPT"];
        let drift = edited(&mut syncer, commands, &BTreeSet::new()).await;
        assert!(drift.is_empty(), "one chain: {drift:?}");
        syncer.once(&[]).await;
        assert_eq!(syncer.iptables().take_payloads(), [""; 0]);
    }
}

#[tokio::test]
async fn a_missing_one_of_equal_rules_returns() {
    let mut syncer = node(TreeThresholds::FLAT).await;
    let repeated = rule(&syncer, Table::Nat, &["-A KUBE-SERVICES", REPEATED]);
    for is_verification in [true, false] {
        let delete = format!("-D {repeated}");
        let change = edit(syncer.iptables(), Table::Nat, &[&delete]);
        assert_eq!(count(&syncer), 1);
        let drift = checked(&mut syncer, &change, is_verification).await;
        assert!(!drift.is_empty());
        let outcome = syncer.once(&[]).await;
        assert_eq!(scopes(&outcome), [Scope::Partial]);
        assert_eq!(count(&syncer), 2);
        assert_no_drift(&mut syncer).await;
    }
}

#[tokio::test]
async fn another_order_around_equal_rules_is_drift() {
    for is_verification in [true, false] {
        let mut syncer = node(TreeThresholds::FLAT).await;
        let between = rule(&syncer, Table::Nat, &["-A KUBE-SERVICES", "203.0.113.2"]);
        let commands = [format!("-D {between}"), format!("-I {between}")];
        let change = edit(syncer.iptables(), Table::Nat, &commands);
        let drift = checked(&mut syncer, &change, is_verification).await;
        assert!(!drift.is_empty());
    }
}
