//! Delays of repairs of rules that another program keeps changing.

use super::*;
use crate::clock::instant;

fn key(chain: &str) -> RepairKey {
    (Table::Nat, chain.into())
}

#[test]
fn a_chain_that_waits_for_its_repair_is_counted_once() {
    let now = instant();
    let mut repairs = RepairSchedule::default();
    let changed = |chain: &str| BTreeSet::from([key(chain)]);
    for _ in 0..3 {
        assert_eq!(repairs.plan(&changed("A"), now, now), Duration::ZERO);
        assert_eq!(repairs.due, None);
        repairs.repaired(now);
    }
    let wait = Duration::from_secs(1);
    for _ in 0..5 {
        assert_eq!(repairs.plan(&changed("A"), now, now), wait);
        assert_eq!(repairs.due, Some(now + wait));
    }
    assert_eq!(repairs.plan(&changed("B"), now, now), Duration::ZERO);
}

#[test]
fn a_chain_that_is_changed_again_and_again_waits_longer_each_time() {
    let (mut repairs, mut now) = (RepairSchedule::default(), instant());
    let mut waits = Vec::new();
    for _ in 0..11 {
        let wait = repairs.count([key("KUBE-SERVICES")], now);
        waits.push(wait.as_secs());
        now += wait + Duration::from_millis(10);
    }
    assert_eq!(waits, [0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(repairs.delayed(now), 1);
    assert_eq!(repairs.count([key("KUBE-NODEPORTS")], now), Duration::ZERO);
}

#[test]
fn a_chain_that_stays_repaired_is_forgotten() {
    let (mut repairs, now) = (RepairSchedule::default(), instant());
    for _ in 0..REPAIRS_WITHOUT_DELAY {
        assert!(repairs.contested(now).is_empty());
        assert_eq!(repairs.count([key("A")], now), Duration::ZERO);
    }
    assert_eq!(repairs.contested(now), [key("A")].into());
    assert_eq!(repairs.count([key("A")], now), REPAIR_DELAY.first);
    let later = now + REPAIR_DELAY.first * 2 + FORGET_AFTER;
    assert!(repairs.contested(later).is_empty());
    assert_eq!(repairs.count([key("A")], later), Duration::ZERO);
    assert_eq!(repairs.delayed(later), 0);
}

#[test]
fn a_chain_that_is_changed_for_the_first_time_does_not_wait_for_a_contested_one() {
    let (mut repairs, now) = (RepairSchedule::default(), instant());
    for _ in 0..7 {
        repairs.count([key("A")], now);
    }
    assert_eq!(repairs.count([key("A"), key("B")], now), Duration::ZERO);
    // The contested one alone waits longer still.
    assert_eq!(repairs.count([key("A")], now).as_secs(), 32);
}

#[test]
fn a_flush_of_many_chains_takes_bounded_memory() {
    let mut repairs = RepairSchedule::default();
    let chains = (0..5000).map(|number| key(&number.to_string()));
    assert_eq!(repairs.count(chains, instant()), Duration::ZERO);
    assert_eq!(repairs.recent.len(), MOST_CHAINS);
}
