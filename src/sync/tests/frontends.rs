//! Frontends that Services in quarantine share with others: the kernel has the rules of one
//! Service for each of them.

use std::collections::{BTreeMap, BTreeSet};

use super::compare::compare;
use super::search::{POISON, WAYS, assert_rules, clock, endpoint, name, wait, without_endpoints};
use super::syncer::{apply, service, syncer};
use super::*;
use crate::host::{Fake, Poison};
use crate::model::Change;
use crate::rules::RuleSet;
use crate::sync::kernel::Extent;
use crate::sync::outcome::SearchResult;

/// An address that Services share.
const SHARED: &str = "203.0.113.1";

/// A Service with external IPs.
pub(super) fn with(number: u8, external: &[&str]) -> Change {
    let Change::Service(name, Some(mut service)) = service(number, true) else {
        unreachable!("it is there");
    };
    service.external_ips = ips(external).into();
    Change::Service(name, Some(service))
}

/// The Services that have rules for each address.
fn owners(syncer: &Syncer<Fake>) -> BTreeMap<String, BTreeSet<String>> {
    let text = syncer.iptables().rules().to_save_text();
    let mut owners: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let dispatch = ["-A KUBE-SERVICES ", "-A KUBE-EXTERNAL-SERVICES "];
    let is_dispatch = |line: &&str| dispatch.iter().any(|chain| line.starts_with(chain));
    for line in text.lines().filter(is_dispatch) {
        let after = |word: &str| line.split_once(word).map(|(_, rest)| rest);
        let address = after(" -d ").and_then(|rest| rest.split('/').next());
        let service = after("\"ns/").and_then(|rest| rest.split(':').next());
        if let (Some(address), Some(service)) = (address, service) {
            let of = owners.entry(address.to_owned()).or_default();
            of.insert(service.to_owned());
        }
    }
    owners
}

#[track_caller]
fn assert_owner(syncer: &Syncer<Fake>, address: &str, owner: u8) {
    let owners = owners(syncer);
    let expected = BTreeSet::from([owner.to_string()]);
    assert_eq!(owners.get(address), Some(&expected), "{owners:?}");
}

/// Applies changes by a sync, after which these Services are in quarantine.
#[track_caller]
fn assert_quarantined(outcome: &Outcome, numbers: &[u8]) {
    assert_eq!(outcome.result(), SyncResult::Applied, "{outcome:?}");
    let expected: Vec<_> = numbers.iter().map(|number| name(*number)).collect();
    assert_eq!(outcome.overridden, expected);
}

async fn sync(syncer: &mut Syncer<Fake>, changes: impl IntoIterator<Item = Change>) -> Outcome {
    apply(syncer, changes);
    syncer.once(&[]).await
}

/// Services whose restores fail in this way because of a poisoned endpoint, after a sync.
async fn applied(how: Poison, changes: impl IntoIterator<Item = Change>) -> Syncer<Fake> {
    let mut syncer = syncer(clock, Vec::new());
    syncer.iptables().set_poisons(&[(POISON, how)]);
    assert_quarantined(&sync(&mut syncer, changes).await, &[]);
    syncer
}

/// The rules of Services that were never in quarantine.
async fn rules_of(changes: impl IntoIterator<Item = Change>) -> RuleSet {
    let mut syncer = syncer(clock, Vec::new());
    assert_quarantined(&sync(&mut syncer, changes).await, &[]);
    syncer.iptables().rules()
}

#[tokio::test]
async fn a_quarantined_service_loses_an_external_ip_to_a_new_cluster_ip() {
    for how in WAYS {
        let address = "10.96.0.9";
        let mut syncer = applied(how, [with(2, &[address]), endpoint(2, 1)]).await;
        assert_quarantined(&sync(&mut syncer, [endpoint(2, 66)]).await, &[2]);
        assert_owner(&syncer, address, 2);
        let new = [service(9, true), endpoint(9, 1)];
        assert_quarantined(&sync(&mut syncer, new).await, &[2]);
        assert_owner(&syncer, address, 9);
        assert_owner(&syncer, "10.96.0.2", 2);
        // The same by a full restore.
        syncer.force_full(FullReason::Flushed);
        assert_quarantined(&sync(&mut syncer, []).await, &[2]);
        assert_owner(&syncer, address, 9);
        // The address goes back to the one in quarantine.
        assert_quarantined(&sync(&mut syncer, [service(9, false)]).await, &[2]);
        assert_owner(&syncer, address, 2);
        assert_quarantined(&sync(&mut syncer, [service(9, true)]).await, &[2]);
        assert_owner(&syncer, address, 9);
        // Connections are looked for once, by the change that moved the address.
        wait(1000);
        let outcome = sync(&mut syncer, [endpoint(2, 3)]).await;
        assert_quarantined(&outcome, &[]);
        let (_, before) = &outcome.applied.before[0];
        assert_eq!(before.lost.len(), 1, "{before:?}");
        let all = [
            with(2, &[address]),
            endpoint(2, 3),
            service(9, true),
            endpoint(9, 1),
        ];
        assert_rules(&syncer, &rules_of(all).await);
    }
}

/// As in a search that has adopted rules of an earlier process.
#[tokio::test]
async fn a_chain_is_deleted_with_a_jump_to_it_that_no_service_has() {
    // Enough others that the rules can be adopted.
    let others = (3..8).flat_map(|number| [service(number, true), endpoint(number, 1)]);
    let all = [with(2, &[SHARED]), endpoint(2, 1)]
        .into_iter()
        .chain(others);
    let mut syncer = applied(Poison::Line, all).await;
    let save = syncer.iptables().rules().to_save_text();
    let jump = save.lines().find(|line| line.contains(SHARED)).unwrap();
    let more = [jump, &jump.replace(SHARED, "203.0.113.9")].join("\n");
    let kernel = RuleSet::parse(&save.replace(jump, &more)).unwrap();
    syncer.iptables().set_rules(kernel);
    let options = syncer.applied_options().unwrap().clone();
    let history = std::mem::take(&mut syncer.history);
    let differing = syncer.observe_or_adopt(&options).await.unwrap();
    assert!(differing.is_empty(), "{differing:?}");
    syncer.history = history;
    syncer.tracker.apply(service(2, true));
    let mut search = SearchResult::default();
    let changed = [name(2)];
    let trial = syncer.try_as_rendered(&changed, &options, &mut search);
    assert!(trial.await.is_ok());
    let save = syncer.iptables().rules().to_save_text();
    assert!(!save.contains("203.0.113."), "{save}");
}

#[tokio::test]
async fn an_address_stays_with_its_service_while_the_winner_cannot_be_applied() {
    for how in WAYS {
        let changes = [
            with(2, &[]),
            endpoint(2, 1),
            with(3, &[SHARED]),
            endpoint(3, 1),
        ];
        let mut syncer = applied(how, changes).await;
        // Its name comes first, but its change fails.
        let gains = [with(2, &[SHARED]), endpoint(2, 66), endpoint(3, 2)];
        assert_quarantined(&sync(&mut syncer, gains).await, &[2]);
        assert_owner(&syncer, SHARED, 3);
        for seconds in [10, 20] {
            wait(seconds);
            assert_quarantined(&sync(&mut syncer, []).await, &[2]);
            assert_owner(&syncer, SHARED, 3);
        }
        wait(1000);
        let outcome = sync(&mut syncer, [endpoint(2, 1)]).await;
        assert_quarantined(&outcome, &[]);
        assert_owner(&syncer, SHARED, 2);
        // Both changed.
        let applied = outcome.applied.before.iter();
        let applied: Vec<_> = applied.map(|(name, _)| name.clone()).collect();
        assert_eq!(applied, [name(2), name(3)]);
        assert!(!syncer.tracker.has_pending());
    }
}

/// An external IP must not take over a cluster IP because of a failure.
#[tokio::test]
async fn the_cluster_ip_of_a_service_that_is_left_out_stays_its_own() {
    for how in WAYS {
        let mut syncer = applied(how, [with(2, &["10.96.0.9"]), endpoint(2, 1)]).await;
        syncer.iptables().set_poisons(&[("ns/9:p", how)]);
        let new = [service(9, true), endpoint(9, 1)];
        assert_quarantined(&sync(&mut syncer, new).await, &[9]);
        let owners = owners(&syncer);
        assert_eq!(owners.get("10.96.0.9"), None, "{owners:?}");
        assert_owner(&syncer, "10.96.0.2", 2);
    }
}

/// Random Services that share addresses; some of them fail from time to time.
#[tokio::test]
async fn no_frontend_has_the_rules_of_two_services_whatever_fails() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let how = WAYS[random.usize(..WAYS.len())];
        let mut syncer = applied(how, []).await;
        // The one that a syncer knows from the beginning.
        let mut objects = BTreeMap::from([((1, true), service(1, true))]);
        for _ in 0..12 {
            for _ in 0..=random.usize(..4) {
                let number = random.u8(1..=6);
                let change = random_change(&mut random, number);
                let is_service = matches!(change, Change::Service(..));
                objects.insert((number, is_service), change.clone());
                syncer.tracker.apply(change);
            }
            wait(random.u64(..30));
            let outcome = syncer.once(&[]).await;
            assert_eq!(outcome.result(), SyncResult::Applied, "{seed}: {outcome:?}");
            // The record is what the kernel has, and what all Services render to.
            let drift = compare(&mut syncer, &Extent::whole()).await;
            assert!(drift.is_empty(), "{seed}: {drift:?}");
            let owners = owners(&syncer);
            let has_one = owners.values().all(|of| of.len() == 1);
            assert!(has_one, "{seed}: {owners:?}");
            let is_applied = |number: u8| !outcome.overridden.contains(&name(number));
            for (number, external) in wanted(&objects).filter(|(number, _)| is_applied(*number)) {
                let own = BTreeSet::from([number.to_string()]);
                let cluster_ip = format!("10.96.0.{number}");
                assert_eq!(owners.get(&cluster_ip), Some(&own), "{seed}");
                let has_owner = |ip: &IpAddr| match owners.get(&ip.to_string()) {
                    Some(owner) => *owner == own || claims(&objects, *ip) > 1,
                    None => false,
                };
                let are_owned = external.iter().all(has_owner);
                assert!(are_owned, "{seed}: {number} {owners:?}");
            }
        }
        syncer.iptables().set_poisons(&[]);
        while !syncer.once(&[]).await.overridden.is_empty() {
            wait(1000);
        }
        assert!(!syncer.tracker.has_pending());
        assert_rules(&syncer, &rules_of(objects.into_values()).await);
    }
}

fn random_change(random: &mut fastrand::Rng, number: u8) -> Change {
    const ADDRESSES: [&str; 4] = [SHARED, "203.0.113.2", "10.96.0.1", "10.96.0.4"];
    match random.u8(..8) {
        0 => service(number, false),
        1 => without_endpoints(number),
        2 | 3 => {
            let first = random.usize(..ADDRESSES.len());
            let last = random.usize(first..=ADDRESSES.len());
            with(number, &ADDRESSES[first..last])
        }
        4 => endpoint(number, 66),
        last => endpoint(number, last),
    }
}

/// The number of Services with this address.
fn claims(objects: &BTreeMap<(u8, bool), Change>, ip: IpAddr) -> usize {
    let has = |(number, external): &(u8, &[IpAddr])| {
        external.contains(&ip) || ip == IpAddr::from([10, 96, 0, *number])
    };
    wanted(objects).filter(has).count()
}

/// The numbers of the Services that there are, with their external IPs.
fn wanted(objects: &BTreeMap<(u8, bool), Change>) -> impl Iterator<Item = (u8, &[IpAddr])> {
    let objects = objects.iter();
    objects.filter_map(|((number, _), change)| match change {
        Change::Service(_, Some(service)) => Some((*number, &*service.external_ips)),
        _ => None,
    })
}
