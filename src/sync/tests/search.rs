//! Search for a Service that makes restores fail, over a fake kernel.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::compare::scopes;
use super::syncer::{apply, service, syncer};
use super::*;
use crate::clock::instant;
use crate::host::{Fake, Fault, Poison};
use crate::model::{Change, Endpoint, ServiceName, Slice, SliceName};
use crate::rules::{RuleSet, Table};
use crate::sync::kernel::KernelState;
use crate::sync::search::deadline;

/// Text that only rules of a poisoned endpoint contain.
pub(super) const POISON: &str = ".66:80";
/// Every way in which a restore can fail because of it.
pub(super) const WAYS: [Poison; 3] = [Poison::Line, Poison::Commit, Poison::Kill];
/// Services of a cluster.
const COUNT: u8 = 12;

thread_local! {
    static SECONDS: Cell<u64> = const { Cell::new(0) };
    static START: Instant = instant();
}

/// A clock that is set by hand.
pub(super) fn clock() -> Instant {
    START.with(|start| *start + Duration::from_secs(SECONDS.get()))
}

pub(super) fn wait(seconds: u64) {
    SECONDS.set(SECONDS.get() + seconds);
}

/// The only endpoint of a Service, `10.0.NUMBER.last`.
pub(crate) fn endpoint(number: u8, last: u8) -> Change {
    endpoints(number, &[last])
}

fn endpoints(number: u8, last_bytes: &[u8]) -> Change {
    let endpoint = |last: &u8| Endpoint::ready([10, 0, number, *last].into());
    let slice = Slice::tcp(name(number), ("p", 80), last_bytes.iter().map(endpoint));
    let name = SliceName::new("ns", &number.to_string());
    Change::Slice(name, Some(Box::new(slice)), None)
}

pub(super) fn without_endpoints(number: u8) -> Change {
    Change::Slice(SliceName::new("ns", &number.to_string()), None, None)
}

/// Adds or changes Services with one endpoint each, whose address ends with `last`.
pub(super) fn add(syncer: &mut Syncer<Fake>, numbers: impl IntoIterator<Item = u8>, last: u8) {
    for number in numbers {
        apply(syncer, [service(number, true), endpoint(number, last)]);
    }
}

pub(super) fn name(number: u8) -> ServiceName {
    ServiceName::new("ns", &number.to_string())
}

/// Services with an endpoint that ends in 1 each, and changes after these.
fn cluster(changes: impl IntoIterator<Item = Change>) -> Syncer<Fake> {
    let mut syncer = syncer(clock, Vec::new());
    add(&mut syncer, 1..=COUNT, 1);
    apply(&mut syncer, changes);
    syncer
}

/// A cluster whose rules have been applied.
pub(super) async fn synced() -> Syncer<Fake> {
    let mut syncer = cluster([]);
    sync_applied(&mut syncer).await;
    syncer.iptables().take_payloads();
    syncer
}

/// A cluster whose rules have been applied, and changes that are not. Payloads with `poison` fail.
pub(super) async fn changed(
    poison: &str,
    how: Poison,
    changes: impl IntoIterator<Item = Change>,
) -> Syncer<Fake> {
    let mut syncer = synced().await;
    syncer.iptables().set_poisons(&[(poison, how)]);
    apply(&mut syncer, changes);
    syncer
}

/// Runs a sync that has to be applied.
pub(super) async fn sync_applied(syncer: &mut Syncer<Fake>) -> Outcome {
    let outcome = syncer.once(&[]).await;
    assert_eq!(outcome.result(), SyncResult::Applied, "{outcome:?}");
    outcome
}

/// The rules of a cluster with these changes, in a kernel without faults.
pub(super) async fn rules_of(changes: impl IntoIterator<Item = Change>) -> RuleSet {
    let mut syncer = cluster(changes);
    syncer.once(&[]).await;
    syncer.iptables().rules()
}

/// The kernel holds these rules.
#[track_caller]
pub(super) fn assert_rules(syncer: &Syncer<Fake>, expected: &RuleSet) {
    let lines = |rules: &RuleSet| {
        let text = rules.to_save_text();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let (found, expected) = (lines(&syncer.iptables().rules()), lines(expected));
    let lacks = |from: &[String], line: &String| !from.contains(line);
    let more: Vec<_> = found.iter().filter(|line| lacks(&expected, line)).collect();
    let less: Vec<_> = expected.iter().filter(|line| lacks(&found, line)).collect();
    assert!(found == expected, "not wanted {more:#?}, missing {less:#?}");
}

/// Services 3 to 6 move to the endpoint 2, and of these `poisoned` to the endpoint that fails.
pub(super) fn changes(poisoned: &[u8]) -> Vec<Change> {
    let last = |number| if poisoned.contains(&number) { 66 } else { 2 };
    (3..=6)
        .map(|number| endpoint(number, last(number)))
        .collect()
}

/// The same without the changes of the Services that fail.
fn others(poisoned: &[u8]) -> Vec<Change> {
    let others = (3..=6).filter(|number| !poisoned.contains(number));
    others.map(|number| endpoint(number, 2)).collect()
}

/// A cluster with poisoned Services, after a sync.
async fn poisoned(how: Poison, numbers: &[u8]) -> Syncer<Fake> {
    let mut syncer = changed(POISON, how, changes(numbers)).await;
    let outcome = sync_applied(&mut syncer).await;
    let expected: Vec<_> = numbers.iter().map(|number| name(*number)).collect();
    assert_eq!(outcome.overridden, expected, "{how:?}");
    let search = outcome.search.unwrap();
    assert_eq!(search.quarantined.len(), numbers.len(), "{how:?}");
    syncer
}

/// A sync that retries no quarantined Service.
async fn sync_untried(syncer: &mut Syncer<Fake>) -> Outcome {
    let outcome = syncer.once(&[]).await;
    assert!(outcome.quarantine_retry.is_none(), "{outcome:?}");
    outcome
}

#[tokio::test]
async fn changes_of_all_other_services_are_applied() {
    for (how, numbers, most) in [
        (Poison::Line, &[4][..], 1),
        (Poison::Line, &[3, 6], 2),
        // All held back, and then 4, 2, 2, 1 and 1 Services; after a kill all of that again.
        (Poison::Commit, &[4], 6),
        (Poison::Commit, &[3, 6], 8),
        (Poison::Kill, &[4], 9),
        (Poison::Kill, &[3, 6], 13),
    ] {
        let mut syncer = changed(POISON, how, changes(numbers)).await;
        let outcome = sync_applied(&mut syncer).await;
        assert_eq!(outcome.applied.before.len(), 4 - numbers.len());
        let expected: Vec<_> = numbers.iter().map(|number| name(*number)).collect();
        assert_eq!(outcome.overridden, expected, "{how:?}");
        let expected = rules_of(others(numbers)).await;
        assert_rules(&syncer, &expected);
        // The partial and the full restore before come to it.
        let search = outcome.search.unwrap();
        let payloads = syncer.iptables().take_payloads().len();
        assert_eq!(payloads, search.restores + 2);
        assert!(search.restores <= most, "{how:?} {numbers:?}: {search:?}");
    }
}

#[tokio::test]
async fn a_quarantined_service_is_retried_alone() {
    for how in WAYS {
        let mut syncer = poisoned(how, &[4]).await;
        let rules = syncer.iptables().rules();
        for (seconds, is_due) in [(0, false), (1, true), (1, false), (1, true)] {
            wait(seconds);
            syncer.iptables().take_payloads();
            let outcome = sync_applied(&mut syncer).await;
            let is_retried = outcome.quarantine_retry.is_some();
            assert_eq!(is_retried, is_due, "{how:?} {seconds}");
            let payloads = syncer.iptables().take_payloads();
            // After a kill it is not known what the kernel holds, so its rules are read.
            let expected = usize::from(is_due);
            assert_eq!(payloads.len(), expected, "{how:?}: {payloads:?}");
            if let Some(payload) = payloads.first() {
                assert!(!payload.contains("ns/5"), "{payload}");
            }
            assert_rules(&syncer, &rules);
        }
    }
}

/// Another one could not succeed: a retry has no reject rules to leave out.
#[tokio::test]
async fn a_full_restore_that_fails_after_a_retry_is_not_repeated_at_once() {
    let mut syncer = poisoned(Poison::Kill, &[4]).await;
    wait(10);
    syncer.iptables().set_poisons(&[("KUBE", Poison::Kill)]);
    // Its rules cannot be read.
    let unprintable = (Table::Nat, "KUBE-POSTROUTING");
    syncer.iptables().set_unprintable(&[unprintable]);
    let outcome = syncer.once(&[]).await;
    let retry = outcome.quarantine_retry.unwrap();
    assert_eq!((retry.restores, retry.failed), (2, 2));
    assert!(retry.left_damaged.is_some());
}

#[tokio::test]
async fn a_corrected_service_is_released_from_quarantine() {
    for how in WAYS {
        let mut syncer = poisoned(how, &[4]).await;
        syncer.tracker.apply(endpoint(4, 3));
        sync_untried(&mut syncer).await;
        wait(10);
        let outcome = syncer.once(&[]).await;
        let retry = outcome.quarantine_retry.unwrap();
        assert!(matches!(retry.result, Ok(was) if was.as_secs() == 10));
        assert!(outcome.overridden.is_empty());
        // Its stale connections are looked for from the state that was last applied.
        let (applied, before) = &outcome.applied.before[0];
        assert_eq!(*applied, name(4));
        assert_eq!(before.slices[0].1.endpoints[0].ip.to_string(), "10.0.4.1");
        let mut expected = others(&[4]);
        expected.push(endpoint(4, 3));
        assert_rules(&syncer, &rules_of(expected).await);
        assert_eq!(syncer.next_retry(), None);
    }
}

#[tokio::test]
async fn a_service_that_is_deleted_or_changed_back_leaves_quarantine() {
    for changes in [
        vec![endpoint(4, 1)],
        vec![service(4, false), without_endpoints(4)],
    ] {
        let mut syncer = poisoned(Poison::Commit, &[4]).await;
        apply(&mut syncer, changes.clone());
        wait(10);
        let outcome = syncer.once(&[]).await;
        assert!(outcome.overridden.is_empty(), "{outcome:?}");
        let expected = rules_of([others(&[4]), changes].concat()).await;
        assert_rules(&syncer, &expected);
    }
}

#[tokio::test]
async fn full_syncs_render_a_service_in_quarantine_as_last_applied() {
    for how in WAYS {
        let mut syncer = poisoned(how, &[4]).await;
        let rules = syncer.iptables().rules();
        syncer.iptables().set_rules(RuleSet::default());
        syncer.force_full(FullReason::Flushed);
        let outcome = sync_untried(&mut syncer).await;
        assert_eq!(outcome.result(), SyncResult::Applied, "{outcome:?}");
        assert!(outcome.search.is_none());
        assert_rules(&syncer, &rules);
    }
}

/// A new Service has an endpoint, and its rules contain `poison`: only those that it falls back to
/// are written, and the change of another one.
async fn falls_back(poison: &str, fallback: Fallback, rules: &[Change]) {
    for how in WAYS {
        let new = [service(40, true), endpoint(40, 66), endpoint(3, 2)];
        let mut syncer = changed(poison, how, new).await;
        let outcome = sync_applied(&mut syncer).await;
        assert_eq!(outcome.overridden, [name(40)]);
        let blamed = &outcome.search.unwrap().quarantined[0];
        assert_eq!(blamed.fallback, fallback);
        assert_rules(&syncer, &rules_of(rules.to_vec()).await);
    }
}

#[tokio::test]
async fn clients_of_a_new_service_that_fails_are_rejected() {
    let rules = [service(40, true), endpoint(3, 2)];
    falls_back(POISON, Fallback::NoEndpoints, &rules).await;
}

/// Even its reject rule is rejected.
#[tokio::test]
async fn a_service_that_fails_in_every_form_is_left_out() {
    falls_back("ns/40:p", Fallback::NoRules, &[endpoint(3, 2)]).await;
}

/// After a flush, the sync does not read the kernel itself.
#[tokio::test]
async fn a_table_that_a_search_cannot_read_is_reported_once() {
    let mut syncer = changed(POISON, Poison::Line, changes(&[4])).await;
    let unprintable = (Table::Nat, "KUBE-POSTROUTING");
    syncer.iptables().set_unprintable(&[unprintable]);
    let outlines = syncer.kernel.record().unwrap().live_chains(&[]);
    syncer.kernel = KernelState::Unknown {
        reason: FullReason::Flushed,
        outlines: Some(outlines),
    };
    for expected in [&[Table::Nat][..], &[]] {
        let outcome = sync_applied(&mut syncer).await;
        assert_eq!(outcome.attempts.len(), 1);
        let unreadable = outcome.notices.newly_unreadable.iter();
        let unreadable: Vec<_> = unreadable.map(|(table, _)| *table).collect();
        assert_eq!(unreadable, expected);
        syncer.force_full(FullReason::Flushed);
    }
}

#[tokio::test]
async fn restores_that_fail_for_every_service_quarantine_none() {
    let assert_node_fault = |search: &SearchResult, most: usize| {
        let is_found = search.node_fault.is_some() && search.restores <= most;
        assert!(is_found, "at most {most}: {search:?}");
    };
    for how in WAYS {
        // Nothing can be restored; nothing with endpoints can.
        for poison in ["KUBE-", "--to-destination 10.0."] {
            let mut syncer = changed(poison, how, changes(&[])).await;
            let rules = syncer.iptables().rules();
            let outcome = syncer.once(&[]).await;
            assert_eq!(outcome.result(), SyncResult::Failed, "{how:?} {poison}");
            assert_eq!(outcome.overridden, []);
            assert!(outcome.applied.before.is_empty());
            assert_node_fault(&outcome.search.unwrap(), 20);
            // With the next retry of the sync, few restores show that nothing has changed.
            assert_node_fault(&syncer.once(&[]).await.search.unwrap(), 2);
            assert_rules(&syncer, &rules);
            syncer.iptables().set_poisons(&[]);
            sync_applied(&mut syncer).await;
            assert_rules(&syncer, &rules_of(changes(&[])).await);
        }
    }
}

/// A kernel module is missing, and there are no rules of earlier processes.
#[tokio::test]
async fn rules_that_fail_for_every_service_at_the_first_start_quarantine_none() {
    for how in WAYS {
        let mut syncer = cluster([]);
        syncer.iptables().set_poisons(&[("-j DNAT", how)]);
        let outcome = syncer.once(&[]).await;
        assert_eq!(outcome.result(), SyncResult::Failed, "{how:?}");
        assert_eq!(outcome.overridden, [], "{how:?}");
        assert!(outcome.search.unwrap().node_fault.is_some());
        syncer.iptables().set_poisons(&[]);
        sync_applied(&mut syncer).await;
        assert_rules(&syncer, &rules_of([]).await);
    }
}

/// The full restore for it fails, and the partial one after it renders all Services.
#[tokio::test]
async fn a_service_in_quarantine_is_rendered_with_new_options() {
    let mut syncer = poisoned(Poison::Line, &[4]).await;
    let local = LocalDetector::Bridge("cbr0".into());
    syncer.config.render_settings.local_mode = LocalMode::Fixed(local);
    syncer.iptables().inject(Fault::Save);
    let outcome = sync_applied(&mut syncer).await;
    let expected = [Scope::Full(FullReason::NodeChanged), Scope::Partial];
    assert_eq!(scopes(&outcome), expected);
    assert_eq!(outcome.overridden, [name(4)]);
    assert_eq!(syncer.verify().await, "");
}

#[tokio::test]
async fn a_retry_without_the_lock_leaves_the_rules_known() {
    let mut syncer = poisoned(Poison::Line, &[4]).await;
    let rules = syncer.iptables().rules();
    syncer.iptables().set_poisons(&[]);
    wait(10);
    syncer.iptables().inject(Fault::LockedAfterFirst);
    syncer.iptables().inject(Fault::Locked);
    let outcome = syncer.once(&[]).await;
    assert!(outcome.quarantine_retry.unwrap().left_damaged.is_some());
    let outcome = sync_applied(&mut syncer).await;
    assert_eq!(outcome.attempts[0].scope, Scope::Partial);
    assert_eq!(outcome.overridden, [name(4)]);
    assert_rules(&syncer, &rules);
}

#[test]
fn a_trial_that_writes_much_has_more_time() {
    let deadline = |took, bytes| deadline(Duration::from_millis(took), bytes).as_secs();
    assert_eq!(deadline(50, 1_000), 30);
    assert_eq!(deadline(8_000, 1_000), 80);
    // All rules of 50,000 Services.
    assert_eq!(deadline(50, 90_000_000), 900);
}

/// At the start, all of the heaviest Services fail without a line. The others have been restored
/// without them, which proves that the node is not at fault.
#[tokio::test]
async fn failing_services_at_the_start_cost_the_restored_ones_nothing() {
    let mut kernel = synced().await.iptables().rules();
    // A chain of an old release: these rules cannot be adopted.
    let old = "*nat\n:KUBE-XLB-AAAAAAAAAAAAAAAA - [0:0]\nCOMMIT\n";
    kernel.apply(old).unwrap();
    let mut syncer = cluster([]);
    syncer.iptables().set_rules(kernel);
    syncer.iptables().set_poisons(&[(POISON, Poison::Commit)]);
    for number in 40..56 {
        let two = endpoints(number, &[66, 67]);
        apply(&mut syncer, [service(number, true), two]);
    }
    let outcome = sync_applied(&mut syncer).await;
    assert_eq!(outcome.overridden, (40..56).map(name).collect::<Vec<_>>());
    for payload in syncer.iptables().take_payloads() {
        let is_full = payload.contains(":KUBE-POSTROUTING");
        assert!(!is_full || payload.contains("ns/1:p"), "{payload}");
    }
    assert!(syncer.iptables().rules().to_save_text().contains("ns/1:p"));
}
