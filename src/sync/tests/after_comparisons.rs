//! Payloads after an adoption or a verification, and comparisons after a payload.

use super::compare::{assert_no_drift, chain_of, compare, edit, node, rule, sorted};
use super::search::{endpoint, sync_applied, without_endpoints};
use super::syncer::{apply, service, syncer};
use super::*;
use crate::clock::instant;
use crate::host::{Fake, Poison};
use crate::model::ServiceName;
use crate::rules::Table;
use crate::sync::kernel::Extent;

/// An address between two others gets its jump at the end of the chain, in the kernel as recorded.
#[tokio::test]
async fn jumps_of_new_node_addresses_are_no_drift() {
    let within = networks(&["10.0.0.0/24"]);
    let mut syncer = syncer(instant, within);
    for addresses in [
        &["10.0.0.1", "10.0.0.3"][..],
        &["10.0.0.1", "10.0.0.2", "10.0.0.3"],
        &["10.0.0.2", "10.0.0.3"],
        &["10.0.0.2", "10.0.0.3", "10.0.0.4"],
    ] {
        let outcome = syncer.once(&ips(addresses)).await;
        assert_eq!(outcome.result(), SyncResult::Applied);
        let rules = syncer.iptables().rules().to_save_text();
        let jumps = rules.matches("-j KUBE-NODEPORTS").count();
        assert_eq!(jumps, addresses.len() + 1);
        let drift = compare(&mut syncer, &Extent::whole()).await;
        assert!(drift.is_empty(), "{addresses:?}: {drift:?}");
    }
}

/// A verification finds a changed chain of a Service; before its repair the Service is deleted.
#[tokio::test]
async fn a_changed_chain_of_a_service_that_is_deleted_goes() {
    let mut syncer = node().await;
    let before = {
        let mut without = node().await;
        without.tracker.apply(service(3, false));
        without.once(&[]).await;
        sorted(&without)
    };
    let added = format!("-A {} -j RETURN", chain_of(&syncer, 3));
    edit(syncer.iptables(), Table::Nat, &[added]);
    let drift = compare(&mut syncer, &Extent::whole()).await;
    assert!(!drift.is_empty());
    syncer.tracker.apply(service(3, false));
    let outcome = syncer.once(&[]).await;
    assert_eq!(outcome.attempts.len(), 1, "{outcome:?}");
    assert_eq!(sorted(&syncer), before);
}

/// A verification finds a stale chain; before its deletion, a Service gets its endpoint.
#[tokio::test]
async fn a_stale_chain_that_is_desired_again_stays() {
    let mut syncer = node().await;
    let expected = sorted(&syncer);
    let stale = rule(&syncer, Table::Nat, &["-A KUBE-SEP-", "10.0.3.9:80"]);
    let stale = stale.split(' ').next().unwrap();
    syncer.tracker.apply(without_endpoints(3));
    syncer.once(&[]).await;
    let declared = format!(":{stale} - [0:0]");
    edit(syncer.iptables(), Table::Nat, &[&declared]);
    compare(&mut syncer, &Extent::whole()).await;
    syncer.tracker.apply(endpoint(3, 9));
    let outcome = syncer.once(&[]).await;
    assert_eq!(outcome.attempts.len(), 1, "{outcome:?}");
    assert_eq!(sorted(&syncer), expected);
}

/// The kernel would reject the deletion of a chain that the referenced one jumps to.
#[tokio::test]
async fn a_stale_chain_that_a_third_party_rule_references_is_emptied_at_an_adoption() {
    let before = node().await;
    let mut kernel = before.iptables().rules();
    let stale = "*nat\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-SEP-BBBBBBBBBBBBBBBB - [0:0]\n\
        :CNI-1 - [0:0]\n-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-BBBBBBBBBBBBBBBB\n\
        -A CNI-1 -j KUBE-SVC-AAAAAAAAAAAAAAAA\nCOMMIT\n";
    kernel.apply(stale).unwrap();
    let mut syncer = node().await;
    syncer.force_full(FullReason::First);
    syncer.history = SyncHistory::default();
    syncer.iptables().set_rules(kernel);
    let outcome = syncer.once(&[]).await;
    assert_eq!(outcome.attempts.len(), 1, "{outcome:?}");
    assert_eq!(outcome.attempts[0].scope, Scope::Adoption);
    let after = syncer.iptables().rules().to_save_text();
    assert!(after.contains(":KUBE-SVC-AAAAAAAAAAAAAAAA"), "{after}");
    assert!(!after.contains("-A KUBE-SVC-AAAAAAAAAAAAAAAA"), "{after}");
    assert!(!after.contains("KUBE-SEP-BBBBBBBBBBBBBBBB"), "{after}");
    assert_no_drift(&mut syncer).await;
}

/// Adds a third-party rule that references the chain of a Service; returns the name of that.
fn reference(syncer: &Syncer<Fake>, number: u8) -> String {
    let target = chain_of(syncer, number);
    let rule = format!("-A CNI-1 -j {target}");
    let commands = [":CNI-1 - [0:0]", rule.as_str()];
    edit(syncer.iptables(), Table::Nat, &commands);
    target
}

/// The kernel rejects its deletion. A full restore follows, unless the reference was read before.
#[tokio::test]
async fn a_chain_that_a_third_party_rule_references_is_emptied_with_its_service() {
    for is_known in [false, true] {
        let mut syncer = node().await;
        let target = reference(&syncer, 3);
        if is_known {
            compare(&mut syncer, &Extent::whole()).await;
        }
        syncer.tracker.apply(service(3, false));
        let outcome = sync_applied(&mut syncer).await;
        let attempts = if is_known { 1 } else { 2 };
        assert_eq!(outcome.attempts.len(), attempts, "{outcome:?}");
        let after = syncer.iptables().rules().to_save_text();
        assert!(after.contains(&format!(":{target} ")), "{after}");
        assert!(!after.contains(&format!("-A {target} ")), "{after}");
        assert!(!after.contains("10.0.3.9"), "{after}");
        assert_no_drift(&mut syncer).await;
        edit(syncer.iptables(), Table::Nat, &["-F CNI-1", "-X CNI-1"]);
        compare(&mut syncer, &Extent::whole()).await;
        let outcome = syncer.once(&[]).await;
        assert_eq!(outcome.attempts.len(), 1, "{outcome:?}");
        let after = syncer.iptables().rules().to_save_text();
        assert!(!after.contains(&target), "{after}");
    }
}

/// The rules of the other one make restores fail, whatever the chain is referenced by.
#[tokio::test]
async fn a_search_blames_no_service_for_a_reference_to_its_chain() {
    let mut syncer = node().await;
    let target = reference(&syncer, 3);
    let poison = ("10.0.4.66", Poison::Commit);
    syncer.iptables().set_poisons(&[poison]);
    apply(&mut syncer, [service(3, false), endpoint(4, 66)]);
    let search = sync_applied(&mut syncer).await.search.unwrap();
    let names: Vec<_> = search.quarantined.iter().map(|one| &one.name).collect();
    assert_eq!(names, [&ServiceName::new("ns", "4")]);
    let after = syncer.iptables().rules().to_save_text();
    assert!(!after.contains(&format!("-A {target} ")), "{after}");
    assert_no_drift(&mut syncer).await;
}

/// Otherwise one failed reading would make NodePorts unreachable.
#[tokio::test]
async fn the_addresses_of_the_last_sync_replace_unreadable_ones() {
    let within = networks(&["10.0.0.0/24"]);
    let mut syncer = syncer(instant, within);
    assert_eq!(syncer.addresses_of_last_sync(), ips(&[]));
    let found = ips(&["10.0.0.1", "192.0.2.1", "10.0.0.3"]);
    syncer.once(&found).await;
    let addresses = syncer.addresses_of_last_sync();
    assert_eq!(addresses, ips(&["10.0.0.1", "10.0.0.3"]));
    assert!(!syncer.node_port_addresses_changed(&addresses));
}
