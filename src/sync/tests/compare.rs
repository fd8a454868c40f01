//! Rules that other programs changed, and the syncs that repair them, over a kernel that is
//! played.

use std::collections::BTreeSet;

use super::search::{add, endpoint, sync_applied};
use super::syncer::{apply, service, synced};
use super::tree_chains::TREE;
use super::*;
use crate::clock::instant;
use crate::host::{Fake, Fault, ForeignChange, Iptables, Poison};
use crate::model::ServiceName;
use crate::render::TreeThresholds;
use crate::rules::Table;
use crate::sync::kernel::{Drift, DriftKind, Extent};
use crate::sync::schedule::RepairKey;

/// A node with six Services, each of one endpoint.
pub(super) async fn node() -> Syncer<Fake> {
    node_with(TreeThresholds::FLAT).await
}

pub(super) async fn node_with(thresholds: TreeThresholds) -> Syncer<Fake> {
    let mut syncer = synced().await;
    syncer.config.render_settings.fixed.tree_thresholds = thresholds;
    add(&mut syncer, 1..7, 9);
    sync_applied(&mut syncer).await;
    syncer.iptables().take_payloads();
    syncer
}

/// Commands of another program, and the chains that it touched.
pub(super) fn edit(kernel: &Fake, table: Table, commands: &[impl AsRef<str>]) -> ForeignChange {
    let commands: Vec<&str> = commands.iter().map(AsRef::as_ref).collect();
    let mut rules = kernel.rules();
    let text = commands.join("\n");
    rules.apply(&format!("*{table}\n{text}\nCOMMIT\n")).unwrap();
    kernel.set_rules(rules);
    let mut change = ForeignChange::default();
    for command in commands {
        change.touch(table, command.split(' ').nth(1).unwrap());
    }
    change
}

/// The extent of the check that a change triggers.
pub(super) fn touched_by(syncer: &Syncer<Fake>, change: &ForeignChange) -> Extent {
    let applied = syncer.kernel.record().unwrap();
    Extent::touched(change, syncer.applied_options().unwrap(), applied)
}

/// Compares as after this change, or as a verification, which finds it as well.
pub(super) async fn checked(
    syncer: &mut Syncer<Fake>,
    change: &ForeignChange,
    is_verification: bool,
) -> Drift {
    let extent = if is_verification {
        Extent::whole()
    } else {
        touched_by(syncer, change)
    };
    compare(syncer, &extent).await
}

pub(super) async fn compare(syncer: &mut Syncer<Fake>, extent: &Extent) -> Drift {
    compare_contested(syncer, extent, &BTreeSet::new()).await
}

/// Compares as if another program kept changing these chains.
pub(super) async fn compare_contested(
    syncer: &mut Syncer<Fake>,
    extent: &Extent,
    contested: &BTreeSet<RepairKey>,
) -> Drift {
    let (drift, failure) = syncer.read_and_compare(extent, contested, instant()).await;
    assert!(failure.is_none(), "{failure:?}");
    drift
}

/// What a check finds after commands of another program in nat.
pub(super) async fn edited(
    syncer: &mut Syncer<Fake>,
    commands: &[impl AsRef<str>],
    contested: &BTreeSet<RepairKey>,
) -> Drift {
    let change = edit(syncer.iptables(), Table::Nat, commands);
    let extent = touched_by(syncer, &change);
    compare_contested(syncer, &extent, contested).await
}

/// What a check finds after another program has flushed a chain of nat.
async fn flushed(syncer: &mut Syncer<Fake>, chain: &str) -> Drift {
    edited(syncer, &[&format!("-F {chain}")], &BTreeSet::new()).await
}

pub(super) async fn assert_no_drift(syncer: &mut Syncer<Fake>) {
    let drift = compare(syncer, &Extent::whole()).await;
    assert!(drift.is_empty(), "{drift:?}");
}

/// Names of chains of one kind.
fn chains(syncer: &Syncer<Fake>, prefix: &str) -> Vec<String> {
    let save = syncer.iptables().rules().to_save_text();
    let names = save.lines().filter_map(|line| line.strip_prefix(':'));
    let names = names.filter_map(|line| line.split(' ').next());
    let names = names.filter(|name| name.starts_with(prefix));
    names.map(str::to_owned).collect()
}

/// A rule of `table` that contains all of these texts, without `-A `.
pub(super) fn rule(syncer: &Syncer<Fake>, table: Table, texts: &[&str]) -> String {
    let save = syncer.iptables().rules().to_save_text();
    let section = save
        .split("COMMIT")
        .find(|part| part.contains(&format!("*{table}\n")));
    let mut lines = section.unwrap().lines();
    let line = lines.find(|line| texts.iter().all(|text| line.contains(text)));
    line.unwrap().strip_prefix("-A ").unwrap().to_owned()
}

/// Both ways to notice it repair the same, by a partial restore.
#[tokio::test]
async fn damage_is_counted_by_kind_and_repaired() {
    let mut syncer = node().await;
    let before = sorted(&syncer);
    let chain = chain_of(&syncer, 2);
    let jump = rule(&syncer, Table::Nat, &["-A PREROUTING", "-j KUBE-SERVICES"]);
    for (command, kind) in [
        (format!("-A {chain} -j ACCEPT"), DriftKind::ServiceChain),
        ("-F KUBE-SERVICES".to_owned(), DriftKind::DispatchChain),
        ("-F KUBE-MARK-MASQ".to_owned(), DriftKind::FixedChain),
        (format!("-D {jump}"), DriftKind::Jump),
    ] {
        for is_verification in [false, true] {
            let change = edit(syncer.iptables(), Table::Nat, &[&command]);
            let drift = checked(&mut syncer, &change, is_verification).await;
            assert!(!drift.is_empty(), "{command} {is_verification}");
            let is_counted = drift.counts.contains_key(&(Table::Nat, kind));
            assert!(is_counted || is_verification, "{command}: {drift:?}");
            let outcome = syncer.once(&[]).await;
            assert_eq!(scopes(&outcome), [Scope::Partial], "{command}");
            assert_eq!(sorted(&syncer), before, "{command} {is_verification}");
            assert_no_drift(&mut syncer).await;
        }
    }
}

#[tokio::test]
async fn damage_of_most_chains_is_repaired_by_a_full_restore_and_no_flush() {
    let mut syncer = node().await;
    let chains = ["KUBE-SVC-", "KUBE-SEP-"].map(|prefix| chains(&syncer, prefix));
    let commands = chains.concat().into_iter();
    let commands: Vec<String> = commands.map(|chain| format!("-F {chain}")).collect();
    edit(syncer.iptables(), Table::Nat, &commands);
    let drift = compare(&mut syncer, &Extent::whole()).await;
    let expected = (Table::Nat, DriftKind::UnrepairableServiceChains);
    assert_eq!(drift.counts, [(expected, 1)].into());
    let outcome = syncer.once(&[]).await;
    assert_eq!(scopes(&outcome), [Scope::Full(FullReason::Flushed)]);
}

/// With the jump to it, which has to be written after the chain exists.
#[tokio::test]
async fn a_deleted_dispatch_chain_is_written_again() {
    for (table, from) in [(Table::Filter, "INPUT"), (Table::Nat, "KUBE-SERVICES")] {
        for is_verification in [false, true] {
            let mut syncer = node().await;
            let before = sorted(&syncer);
            let jump = format!("-A {from}");
            let jump = rule(&syncer, table, &[&jump, "-j KUBE-NODEPORTS"]);
            let commands = [format!("-D {jump}"), "-X KUBE-NODEPORTS".to_owned()];
            let change = edit(syncer.iptables(), table, &commands);
            let drift = checked(&mut syncer, &change, is_verification).await;
            assert_eq!(drift.chains.len(), 2, "{drift:?}");
            let outcome = sync_applied(&mut syncer).await;
            let case = format!("{table} {is_verification}");
            assert_eq!(scopes(&outcome), [Scope::Partial], "{case}");
            assert_eq!(sorted(&syncer).len(), before.len());
        }
    }
}

pub(super) fn scopes(outcome: &Outcome) -> Vec<Scope> {
    let attempts = outcome.attempts.iter();
    attempts.map(|attempt| attempt.scope).collect()
}

/// The chain of a Service with one endpoint.
pub(super) fn chain_of(syncer: &Syncer<Fake>, number: u8) -> String {
    let comment = format!("\"ns/{number}:p -> ");
    let rule = rule(syncer, Table::Nat, &["-A KUBE-SVC-", &comment]);
    rule.split(' ').next().unwrap().to_owned()
}

/// Rules with those of KUBE-SERVICES, which have no order among Services, sorted.
pub(super) fn sorted(syncer: &Syncer<Fake>) -> Vec<String> {
    let save = syncer.iptables().rules().to_save_text();
    let (mut free, mut fixed) = (Vec::new(), Vec::new());
    for line in save.lines() {
        if line.starts_with("-A KUBE-SERVICES -d") || line.starts_with("-A FORWARD") {
            free.push(line.to_owned());
        } else {
            fixed.push(line.to_owned());
        }
    }
    free.sort();
    fixed.extend(free);
    fixed
}

/// The other chains of the same Service stay.
#[tokio::test]
async fn a_comparison_of_all_rules_finds_the_one_chain_that_differs() {
    let mut syncer = node().await;
    let endpoint = chains(&syncer, "KUBE-SEP-").remove(0);
    edit(syncer.iptables(), Table::Nat, &[&format!("-F {endpoint}")]);
    let drift = compare(&mut syncer, &Extent::whole()).await;
    assert_eq!(drift.counts.len(), 1, "{drift:?}");
    syncer.once(&[]).await;
    let payload = syncer.iptables().take_payloads().concat();
    assert_eq!(payload.matches(" - [0:0]").count(), 1, "{payload}");
    let declared = format!(":{endpoint} - [0:0]");
    assert!(payload.contains(&declared), "{payload}");
}

#[tokio::test]
async fn changes_of_the_cluster_are_no_drift() {
    let mut syncer = node().await;
    let changes = [endpoint(2, 7), service(3, false), service(8, true)];
    apply(&mut syncer, changes);
    assert_no_drift(&mut syncer).await;
    let outcome = syncer.once(&[]).await;
    assert_eq!(scopes(&outcome), [Scope::Partial]);
    assert_no_drift(&mut syncer).await;
    // The same as on a node that has never held anything else.
    let applied = syncer.iptables().rules().to_save_text();
    for (text, is_there) in [
        ("ns/8", true),
        ("ns/3", false),
        ("10.0.2.7:80", true),
        ("10.0.2.9", false),
    ] {
        assert_eq!(applied.contains(text), is_there, "{text}: {applied}");
    }
}

/// As a second proxy does that applies the same change.
#[tokio::test]
async fn a_chain_rewritten_unchanged_is_no_drift() {
    let mut syncer = node().await;
    let mut services = chains(&syncer, "KUBE-SVC-");
    let (service, other) = (services.remove(0), services.remove(0));
    let rules = service_rules(&syncer, &service);
    let again: Vec<String> = [format!("-F {service}")].into_iter().chain(rules).collect();
    let change = edit(syncer.iptables(), Table::Nat, &again);
    let extent = touched_by(&syncer, &change);
    assert_eq!(extent.of_services.len(), 1);
    let drift = compare(&mut syncer, &extent).await;
    assert!(drift.is_empty(), "{drift:?}");
    syncer.once(&[]).await;
    assert_eq!(syncer.iptables().take_payloads(), [""; 0]);

    let both = [again, vec![format!("-F {other}")]].concat();
    let change = edit(syncer.iptables(), Table::Nat, &both);
    let extent = touched_by(&syncer, &change);
    assert_eq!(extent.of_services.len(), 2);
    let drift = compare(&mut syncer, &extent).await;
    let named: Vec<&str> = drift.chains.iter().map(|(_, chain)| &**chain).collect();
    assert_eq!(named, [&*other]);
    syncer.once(&[]).await;
    let payload = syncer.iptables().take_payloads().concat();
    assert!(payload.contains(&other), "{payload}");
    assert!(!payload.contains(&service), "{payload}");
}

fn service_rules(syncer: &Syncer<Fake>, chain: &str) -> Vec<String> {
    let save = syncer.iptables().rules().to_save_text();
    let start = format!("-A {chain} ");
    let rules = save.lines().filter(|line| line.starts_with(&start));
    rules.map(str::to_owned).collect()
}

#[tokio::test]
async fn unreadable_chains_are_rewritten() {
    let mut syncer = node().await;
    let service = chains(&syncer, "KUBE-SVC-").remove(0);
    let before = sorted(&syncer);
    syncer.iptables().inject(Fault::List);
    let drift = flushed(&mut syncer, &service).await;
    assert_eq!(drift.chains.len(), 1, "{drift:?}");
    syncer.once(&[]).await;
    assert_eq!(sorted(&syncer), before);
}

/// The repair of the first one may be delayed, because another program keeps changing it.
#[tokio::test]
async fn a_second_damaged_chain_of_a_service_is_drift() {
    let mut syncer = node().await;
    let of_service = chain_of(&syncer, 2);
    let of_chain = format!("-A {of_service} ");
    let jump = rule(&syncer, Table::Nat, &[&of_chain, "-j KUBE-SEP-"]);
    let of_endpoint = jump.split(' ').next_back().unwrap().to_owned();
    for chain in [of_service, of_endpoint] {
        let drift = flushed(&mut syncer, &chain).await;
        assert_eq!(drift.chains, [(Table::Nat, chain.into())].into());
    }
    sync_until_quiet(&mut syncer).await;
}

/// Another program holds the lock after the first of two is written, and maybe the tables cannot
/// be read then.
#[tokio::test]
async fn a_missing_jump_is_not_inserted_twice() {
    for faults in [
        &[Fault::LockedAfterFirst][..],
        &[Fault::LockedAfterFirst, Fault::Save],
    ] {
        let mut syncer = node().await;
        let before = sorted(&syncer);
        for (table, texts) in [
            (Table::Filter, ["-A FORWARD", "-j KUBE-FORWARD"]),
            (Table::Nat, ["-A PREROUTING", "-j KUBE-SERVICES"]),
        ] {
            let delete = format!("-D {}", rule(&syncer, table, &texts));
            edit(syncer.iptables(), table, &[&delete]);
        }
        compare(&mut syncer, &Extent::whole()).await;
        for fault in faults {
            syncer.iptables().inject(*fault);
        }
        assert_eq!(syncer.once(&[]).await.result(), SyncResult::Failed);
        assert_eq!(syncer.once(&[]).await.result(), SyncResult::Applied);
        assert_eq!(sorted(&syncer), before);
    }
}

/// A chain of another program makes the whole table unprintable. Each listing is a process, which
/// on legacy reads the whole table.
#[tokio::test]
async fn dispatch_chains_of_an_unprintable_table_are_listed_at_once() {
    let mut syncer = node_with(TREE).await;
    syncer.iptables().set_unprintable(&[(Table::Nat, "DOCKER")]);
    syncer.iptables().take_listings();
    let (drift, failure) = syncer
        .read_and_compare(&Extent::whole(), &BTreeSet::new(), instant())
        .await;
    assert!(drift.is_empty() && failure.is_some(), "{drift:?}");
    let undamaged = syncer.iptables().take_listings();
    let applied = syncer.kernel.record().unwrap();
    let chains = applied.dispatch_and_tree_chains().count();
    edit(syncer.iptables(), Table::Nat, &["-F KUBE-SVC-0.0.0.0/4"]);
    let (drift, _) = syncer
        .read_and_compare(&Extent::whole(), &BTreeSet::new(), instant())
        .await;
    assert_eq!(drift.chains.len(), 1, "{drift:?}");
    assert_eq!(syncer.iptables().take_listings(), undamaged);
    assert!(undamaged < chains, "{undamaged} of {chains}");
}

/// Another program holds the lock meanwhile.
#[tokio::test]
async fn a_change_that_is_taken_back_before_it_is_written_leaves_nothing() {
    let mut syncer = node().await;
    let before = sorted(&syncer);
    syncer.iptables().inject(Fault::Locked);
    syncer.tracker.apply(endpoint(2, 7));
    assert_eq!(syncer.once(&[]).await.result(), SyncResult::Failed);
    syncer.tracker.apply(endpoint(2, 9));
    syncer.iptables().take_payloads();
    assert_eq!(syncer.once(&[]).await.result(), SyncResult::Applied);
    assert_eq!(syncer.iptables().take_payloads(), [""; 0]);
    assert_eq!(sorted(&syncer), before);
}

/// Syncs and compares until nothing differs.
async fn sync_until_quiet(syncer: &mut Syncer<Fake>) {
    while !compare(syncer, &Extent::whole()).await.is_empty() {
        syncer.once(&[]).await;
    }
    syncer.once(&[]).await;
}

#[tokio::test]
async fn a_damaged_chain_of_a_changing_service_is_drift() {
    let mut syncer = node().await;
    let name = ServiceName::new("ns", "2");
    let chain = chain_of(&syncer, 2);
    syncer.tracker.apply(endpoint(2, 7));
    assert!(syncer.tracker.dirty().any(|dirty| *dirty == name));
    let drift = flushed(&mut syncer, &chain).await;
    assert_eq!(drift.chains, [(Table::Nat, chain.into())].into());
    syncer.once(&[]).await;
    assert_no_drift(&mut syncer).await;
}

#[tokio::test]
async fn a_missing_chain_does_not_hide_other_chains() {
    let mut syncer = node().await;
    let mut services = chains(&syncer, "KUBE-SVC-");
    let (gone, touched) = (services.remove(0), services.remove(0));
    let before = sorted(&syncer);
    let jump = rule(&syncer, Table::Nat, &["-A KUBE-SERVICES", &gone]);
    let [flush, delete_chain] = ["-F", "-X"].map(|command| format!("{command} {gone}"));
    let commands = [format!("-D {jump}"), flush, delete_chain];
    let mut change = edit(syncer.iptables(), Table::Nat, &commands);
    change.touch(Table::Nat, &touched);
    let extent = touched_by(&syncer, &change);
    let drift = compare(&mut syncer, &extent).await;
    let named: Vec<&str> = drift.chains.iter().map(|(_, chain)| &**chain).collect();
    assert_eq!(named, ["KUBE-SERVICES", &gone]);
    syncer.once(&[]).await;
    assert_eq!(sorted(&syncer), before);
}

/// More than the listings of one reading can find.
#[tokio::test]
async fn many_unprintable_chains_do_not_make_others_drift() {
    let mut syncer = node_with(TREE).await;
    add(&mut syncer, 7..=250, 9);
    syncer.once(&[]).await;
    let applied = syncer.kernel.record().unwrap();
    let chains: Vec<_> = applied
        .dispatch_and_tree_chains()
        .filter(|(table, chain)| *table == Table::Nat && chain.contains('.'))
        .collect();
    assert!(chains.len() > 20, "{chains:?}");
    let unprintable = chains.iter().step_by(2);
    let unprintable = unprintable.map(|(table, chain)| (*table, &**chain));
    let all: Vec<_> = unprintable.chain([(Table::Nat, "DOCKER")]).collect();
    syncer.iptables().set_unprintable(&all);
    let (drift, _) = syncer
        .read_and_compare(&Extent::whole(), &BTreeSet::new(), instant())
        .await;
    assert!(!drift.is_empty());
    for (table, chain) in &drift.chains {
        assert!(all.contains(&(*table, &**chain)), "{table} {chain}");
    }
}

#[tokio::test]
async fn a_chain_that_another_program_repaired_is_no_drift() {
    let mut syncer = node().await;
    let service = chains(&syncer, "KUBE-SVC-").remove(0);
    let rules = service_rules(&syncer, &service);
    let change = edit(syncer.iptables(), Table::Nat, &[&format!("-F {service}")]);
    let extent = touched_by(&syncer, &change);
    assert!(!compare(&mut syncer, &extent).await.is_empty());
    // Its own repair waits, as in a contest.
    edit(syncer.iptables(), Table::Nat, &rules);
    let drift = compare(&mut syncer, &extent).await;
    assert!(drift.is_empty(), "{drift:?}");
    syncer.once(&[]).await;
    assert_eq!(syncer.iptables().take_payloads(), [""; 0]);
}

/// Flushes the nat table, and returns what a check of it finds.
pub(super) async fn flush_nat(syncer: &mut Syncer<Fake>, contested: &BTreeSet<RepairKey>) -> Drift {
    let rules = syncer.iptables().rules();
    let chains = rules.chains(Table::Nat);
    let flushes: Vec<String> = chains.map(|(name, _)| format!("-F {name}")).collect();
    edited(syncer, &flushes, contested).await
}

#[tokio::test]
async fn a_flushed_nat_table_is_restored_without_another_reading() {
    let mut syncer = node().await;
    let before = sorted(&syncer);
    let drift = flush_nat(&mut syncer, &BTreeSet::new()).await;
    let kind = (Table::Nat, DriftKind::FlushedTable);
    assert!(drift.counts.contains_key(&kind), "{drift:?}");
    syncer.iptables().inject(Fault::Save);
    let outcome = syncer.once(&[]).await;
    assert_eq!(scopes(&outcome), [Scope::Full(FullReason::Flushed)]);
    assert_eq!(outcome.result(), SyncResult::Applied);
    assert_eq!(sorted(&syncer), before);
    // The fault is still to come.
    let saved = syncer.iptables().save(Table::Nat, &mut |_| ()).await;
    assert!(saved.is_err());
}

#[tokio::test]
async fn a_restore_after_a_flush_that_fails_is_followed_by_one_that_reads() {
    let mut syncer = node().await;
    let before = sorted(&syncer);
    flush_nat(&mut syncer, &BTreeSet::new()).await;
    syncer.iptables().set_poisons(&[("KUBE", Poison::Kill)]);
    assert_eq!(syncer.once(&[]).await.result(), SyncResult::Failed);
    syncer.iptables().set_poisons(&[]);
    assert_eq!(syncer.once(&[]).await.result(), SyncResult::Applied);
    assert_eq!(sorted(&syncer), before);
}
