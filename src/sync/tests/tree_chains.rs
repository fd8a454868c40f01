//! Tree chains: their entries, and a leaf that another program has emptied, not noticed yet.

use super::compare::{edit, node_with};
use super::search::{add, endpoint, name, sync_applied, without_endpoints};
use super::syncer::{apply, service};
use super::*;
use crate::host::Fake;
use crate::render::TreeThresholds;
use crate::rules::{Backend, Table};

pub(super) const TREE: TreeThresholds = TreeThresholds {
    nat: Some(2),
    filter: None,
};

/// Chain with the rules of the six Services of [`node_with`].
const LEAF: &str = "KUBE-SVC-0.0.0.0/4";

/// Returns a node with an emptied leaf, to which a Service has to be added.
async fn damaged(backend: Backend) -> Syncer<Fake> {
    let mut syncer = node_with(TREE).await;
    syncer.config.render_settings.fixed.backend = backend;
    syncer.once(&[]).await;
    edit(syncer.iptables(), Table::Nat, &[&format!("-F {LEAF}")]);
    add(&mut syncer, [7], 9);
    syncer.iptables().take_payloads();
    syncer
}

fn rules_of_leaf(syncer: &Syncer<Fake>) -> usize {
    let text = syncer.iptables().rules().to_save_text();
    text.matches(&format!("-A {LEAF} ")).count()
}

#[tokio::test]
async fn on_legacy_a_new_service_repairs_the_leaf() {
    let mut syncer = damaged(Backend::Legacy).await;
    let outcome = syncer.once(&[]).await;
    assert_eq!(outcome.attempts.len(), 1, "{outcome:?}");
    assert_eq!(rules_of_leaf(&syncer), 7);
}

/// The number of the new rule is too large.
#[tokio::test]
async fn on_nft_the_partial_restore_fails_and_a_full_one_repairs_the_leaf() {
    let mut syncer = damaged(Backend::Nft).await;
    let outcome = sync_applied(&mut syncer).await;
    assert_eq!(outcome.attempts.len(), 2, "{outcome:?}");
    let payloads = syncer.iptables().take_payloads();
    let inserted = format!("-I {LEAF} 7 ");
    assert!(payloads[0].contains(&inserted), "{payloads:?}");
    assert!(outcome.overridden.is_empty());
    assert_eq!(rules_of_leaf(&syncer), 7);
}

/// Otherwise a search would put the new Service into quarantine.
#[tokio::test]
async fn a_trial_restore_does_not_fail_because_of_the_leaf() {
    let mut syncer = damaged(Backend::Nft).await;
    let options = syncer.applied_options().unwrap().clone();
    let mut search = SearchResult::default();
    let names = [name(7)];
    let trial = syncer.try_as_rendered(&names, &options, &mut search);
    assert!(trial.await.is_ok());
    assert_eq!(rules_of_leaf(&syncer), 7);
}

/// Returns how many entries of a legacy table are not those that the record has.
fn other_entries(syncer: &Syncer<Fake>) -> [u64; 2] {
    let rules = syncer.iptables().rules();
    let ours = syncer.kernel.record().unwrap().entry_counts();
    [(Table::Filter, ours.filter), (Table::Nat, ours.nat)].map(|(table, ours)| {
        let chains = rules.chains(table);
        let entries = chains.map(|(_, chain)| 2 + chain.rules.len() as u64);
        entries.sum::<u64>() - ours
    })
}

/// On legacy, another number would count as a change by another program.
#[tokio::test]
async fn only_entries_of_the_record_change_with_services() {
    for thresholds in [TREE, TreeThresholds::FLAT] {
        let mut syncer = node_with(thresholds).await;
        let before = other_entries(&syncer);
        for changes in [
            vec![service(7, true), endpoint(7, 9)],
            vec![endpoint(7, 10)],
            vec![without_endpoints(7)],
            vec![service(7, false), service(6, false)],
            (1..6).map(|number| service(number, false)).collect(),
        ] {
            apply(&mut syncer, changes);
            let outcome = sync_applied(&mut syncer).await;
            assert_eq!(other_entries(&syncer), before, "{outcome:?}");
        }
    }
}
