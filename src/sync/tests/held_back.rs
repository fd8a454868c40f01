//! Searches that are too long for one sync: the suspects that are left are held back, and all
//! others are synced and repaired.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::compare::assert_no_drift;
use super::search::{POISON, WAYS, add, endpoint, name, sync_applied};
use super::syncer::{apply, syncer};
use super::*;
use crate::clock::instant;
use crate::host::{Fake, Fault, Poison};
use crate::rules::{Rule, RuleSet, Table};
use crate::ruleset::is_service_chain;

/// Failing Services.
const FAILING: std::ops::Range<u8> = 40..80;

thread_local! {
    static MILLIS: Cell<u64> = const { Cell::new(0) };
    static START: Instant = instant();
}

/// A clock that advances by 100 ms each time it is read.
fn ticking() -> Instant {
    MILLIS.set(MILLIS.get() + 100);
    START.with(|start| *start + Duration::from_millis(MILLIS.get()))
}

/// A syncer with these Services, which are not applied yet.
fn with(numbers: impl IntoIterator<Item = u8>) -> Syncer<Fake> {
    let mut syncer = syncer(instant, Vec::new());
    add(&mut syncer, numbers, 1);
    syncer
}

/// Services 1 to 12 are applied, and then the failing ones arrive.
async fn with_failing(how: Poison) -> (Syncer<Fake>, Outcome) {
    let mut syncer = syncer(ticking, Vec::new());
    add(&mut syncer, 1..=12, 1);
    sync_applied(&mut syncer).await;
    syncer.iptables().set_poisons(&[(POISON, how)]);
    add(&mut syncer, FAILING, 66);
    let outcome = sync_applied(&mut syncer).await;
    (syncer, outcome)
}

fn has(syncer: &Syncer<Fake>, text: &str) -> bool {
    syncer.iptables().rules().to_save_text().contains(text)
}

#[tokio::test]
async fn a_long_search_continues_after_the_changes_of_others() {
    for how in WAYS {
        let (mut syncer, outcome) = with_failing(how).await;
        let search = outcome.search.unwrap();
        assert!(!search.held_back.is_empty(), "{how:?}: {search:?}");
        let failing: Vec<_> = FAILING.map(name).collect();
        assert_eq!(outcome.overridden, failing, "{how:?}");
        let mut found = search.quarantined.len();
        for round in 0..400_u16 {
            let last = 2 + u8::try_from(round % 50).unwrap();
            syncer.tracker.apply(endpoint(3, last));
            let outcome = sync_applied(&mut syncer).await;
            assert!(outcome.attempts[0].result.is_ok(), "{how:?} {round}");
            assert!(has(&syncer, &format!("10.0.3.{last}:80")));
            let Some(search) = outcome.search else {
                continue;
            };
            assert!(search.restores <= 8, "{how:?} {round}: {search:?}");
            found += search.quarantined.len();
            if search.held_back.is_empty() {
                break;
            }
        }
        assert_eq!(found, failing.len(), "{how:?}: each is found once");
        assert!(!has(&syncer, POISON));
        // As if they had no endpoints.
        assert!(has(&syncer, "-d 10.96.0.79"), "{how:?}");
    }
}

#[tokio::test]
async fn a_flush_is_repaired_while_suspects_are_held_back() {
    for how in WAYS {
        let (mut syncer, outcome) = with_failing(how).await;
        assert!(!outcome.search.unwrap().held_back.is_empty());
        syncer.iptables().set_rules(RuleSet::default());
        syncer.force_full(FullReason::Flushed);
        let outcome = sync_applied(&mut syncer).await;
        assert_eq!(outcome.attempts.len(), 1, "{how:?}: {outcome:?}");
        assert!(has(&syncer, "10.0.3.1:80") && has(&syncer, "10.0.12.1:80"));
    }
}

#[tokio::test]
async fn a_corrected_suspect_is_applied() {
    let (mut syncer, _) = with_failing(Poison::Commit).await;
    apply(&mut syncer, FAILING.map(|number| endpoint(number, 2)));
    for _ in 0..100 {
        wait_for_retries();
        sync_applied(&mut syncer).await;
    }
    assert!(syncer.tracker.overrides().is_empty());
    assert_eq!(syncer.next_retry(), None);
    let is_applied = |number: u8| has(&syncer, &format!("10.0.{number}.2:80"));
    assert!(FAILING.into_iter().all(is_applied));
}

fn wait_for_retries() {
    MILLIS.set(MILLIS.get() + 30_000);
}

/// A Service keeps the comments that its rules were written with when the cluster becomes large.
#[tokio::test]
async fn rules_from_memory_have_the_comments_of_those_in_the_kernel() {
    let mut syncer = with(1..=3);
    syncer.config.render_settings.fixed.large_cluster_endpoints = 5;
    sync_applied(&mut syncer).await;
    add(&mut syncer, 4..=9, 1);
    sync_applied(&mut syncer).await;
    let mut text = Vec::new();
    assert!(syncer.write_applied(|piece| text.extend_from_slice(piece)));
    let written = RuleSet::parse(str::from_utf8(&text).unwrap()).unwrap();
    let kernel = syncer.iptables().rules();
    for (name, chain) in kernel.chains(Table::Nat) {
        if is_service_chain(name) {
            assert_eq!(written.rules_of(Table::Nat, name), chain.rules, "{name}");
        }
    }
    let comments = |number| written_comments(&written, number);
    assert_eq!((comments(3), comments(4)), (1, 0));
    assert_eq!(syncer.verify().await, "");
}

/// The number of comments that name an endpoint of a Service.
fn written_comments(rules: &RuleSet, number: u8) -> usize {
    let endpoint = format!(" -> 10.0.{number}.1:80");
    let chains = rules.chains(Table::Nat);
    let rules = chains.flat_map(|(_, chain)| &chain.rules);
    let comments = rules.filter_map(Rule::comment);
    comments.filter(|text| text.ends_with(&endpoint)).count()
}

/// As with a memory limit: full restores are killed from now on, and one partial restore fails.
#[tokio::test]
async fn rules_are_compared_when_a_full_restore_cannot_succeed() {
    let mut syncer = with(1..=12);
    sync_applied(&mut syncer).await;
    let full = (":KUBE-FORWARD", Poison::Kill);
    syncer.iptables().set_poisons(&[full]);
    syncer.iptables().inject(Fault::Restore);
    syncer.tracker.apply(endpoint(3, 2));
    let outcome = sync_applied(&mut syncer).await;
    assert_eq!(outcome.attempts.len(), 2, "{outcome:?}");
    assert_eq!(outcome.overridden, []);
    assert!(has(&syncer, "10.0.3.2:80"));
    // A periodic full sync fails, but no rule is lost.
    syncer.force_full(FullReason::Periodic);
    sync_applied(&mut syncer).await;
    assert!(has(&syncer, "10.0.3.2:80"));
}

/// Between two parts of a search, for example for lack of memory.
#[tokio::test]
async fn a_node_that_can_restore_nothing_during_a_search_quarantines_none() {
    for how in WAYS {
        let (mut syncer, outcome) = with_failing(Poison::Commit).await;
        let before = outcome.search.unwrap().quarantined.len();
        assert_eq!(syncer.quarantine.names().count(), before);
        syncer.iptables().set_poisons(&[("KUBE", how)]);
        for _ in 0..5 {
            wait_for_retries();
            let outcome = syncer.once(&[]).await;
            assert_eq!(outcome.result(), SyncResult::Failed, "{how:?}");
            assert_eq!(outcome.overridden.len(), FAILING.len(), "{how:?}");
            assert_eq!(syncer.quarantine.names().count(), before, "{how:?}");
        }
        syncer.iptables().set_poisons(&[]);
        for _ in 0..100 {
            wait_for_retries();
            sync_applied(&mut syncer).await;
        }
        assert!(syncer.tracker.overrides().is_empty(), "{how:?}");
        assert!(has(&syncer, "10.0.79.66:80") && has(&syncer, "10.0.3.1:80"));
    }
}

/// Its rules stayed in the kernel, and can no longer be written.
#[tokio::test]
async fn a_flush_is_repaired_although_the_rules_of_a_quarantined_service_fail() {
    for how in [Poison::Commit, Poison::Kill] {
        let mut syncer = with(1..=40);
        sync_applied(&mut syncer).await;
        syncer.iptables().set_poisons(&[(POISON, how)]);
        syncer.tracker.apply(endpoint(4, 66));
        assert_eq!(sync_applied(&mut syncer).await.overridden, [name(4)]);
        syncer.iptables().set_poisons(&[("10.0.4.", how)]);
        syncer.iptables().set_rules(RuleSet::default());
        syncer.force_full(FullReason::Flushed);
        assert_eq!(sync_applied(&mut syncer).await.overridden, [name(4)]);
        assert!(has(&syncer, "10.0.3.1:80") && has(&syncer, "10.0.40.1:80"));
    }
}

/// Neither its change nor its last rules can be written, for example because a match is gone.
#[tokio::test]
async fn a_changed_service_whose_last_rules_fail_keeps_its_reject_rules() {
    let mut syncer = with(1..=40);
    sync_applied(&mut syncer).await;
    syncer.iptables().set_poisons(&[("10.0.4.", Poison::Line)]);
    syncer.iptables().set_rules(RuleSet::default());
    syncer.force_full(FullReason::Flushed);
    syncer.tracker.apply(endpoint(4, 66));
    assert_eq!(sync_applied(&mut syncer).await.overridden, [name(4)]);
    let fallback = syncer.quarantine.fallback(&name(4));
    assert_eq!(fallback, Some(Fallback::NoEndpoints));
    assert!(has(&syncer, "ns/4:p has no endpoints") && has(&syncer, "10.0.40.1:80"));
    assert_no_drift(&mut syncer).await;
}

/// As on a node without the sctp match: even their reject rules are rejected.
#[tokio::test]
async fn a_start_with_several_services_that_fail_in_every_form_applies_all_others() {
    for (how, count) in [(Poison::Line, 3), (Poison::Line, 12), (Poison::Commit, 5)] {
        let failing = 60..60 + count;
        let mut syncer = with((1..=40).chain(failing.clone()));
        let poisons: Vec<_> = failing
            .clone()
            .map(|number| format!("ns/{number}:p"))
            .collect();
        let poisons: Vec<_> = poisons.iter().map(|text| (&**text, how)).collect();
        syncer.iptables().set_poisons(&poisons);
        let outcome = sync_applied(&mut syncer).await;
        let expected: Vec<_> = failing.map(name).collect();
        assert_eq!(outcome.overridden, expected, "{how:?} {count}");
        assert!(has(&syncer, "10.0.1.1:80") && has(&syncer, "10.0.40.1:80"));
    }
}
