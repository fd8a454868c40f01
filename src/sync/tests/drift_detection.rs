//! State of drift detection: delays, repairs and rules that could not be read.

use super::verification_tests::{MINUTES, ran};
use super::*;
use crate::clock::instant;
use crate::render::LiveChains;
use crate::rules::Table;
use crate::sync::kernel::{Extent, Reading};
use crate::sync::schedule::RepairKey;
use crate::sync::tests::missing_program;

fn changed(chain: &str) -> BTreeSet<RepairKey> {
    [(Table::Nat, chain.into())].into()
}

#[test]
fn a_repair_in_two_steps_is_reported_once() {
    let (now, second) = (instant(), Duration::from_secs(1));
    let mut detection = DriftDetection::new(Some(MINUTES), Some(MINUTES), now);
    assert!(!detection.repairs.repaired(now));
    assert_eq!(detection.take_repair_time(), None);
    // Events were lost: fixed chains are checked at once, and all other rules after that.
    detection.repairs.plan(&changed("A"), now, now);
    detection.verifications.request(now);
    assert!(detection.repairs.repaired(now + second));
    assert_eq!(detection.take_repair_time(), None);
    detection.repairs.plan(&changed("A"), now + second * 2, now);
    let ran = ran(now, Duration::ZERO);
    detection.verifications.finished(&ran, None);
    assert_eq!(detection.take_repair_time(), None);
    assert!(detection.repairs.repaired(now + second * 3));
    assert_eq!(detection.take_repair_time(), Some(second * 3));
    assert!(!detection.repairs.repaired(now + second * 4));
    assert_eq!(detection.take_repair_time(), None);
    // The verification finds nothing more: the repair ended with the sync.
    detection.repairs.plan(&changed("A"), now, now);
    detection.verifications.request(now);
    assert!(detection.repairs.repaired(now + second));
    detection.verifications.finished(&ran, None);
    assert_eq!(detection.take_repair_time(), Some(second));
}

#[test]
fn failed_readings_are_counted_until_all_rules_are_read() {
    let mut detection = DriftDetection::new(Some(MINUTES), None, instant());
    let failure = missing_program();
    let (named, whole) = (false, true);
    let mut count =
        |is_verification, failure| detection.count_failed_readings(is_verification, failure);
    assert_eq!(count(named, None), 0);
    assert_eq!(count(whole, Some(&failure)), 1);
    // A chain that can be read says nothing about the rest of the table.
    assert_eq!(count(named, None), 1);
    assert_eq!(count(named, Some(&failure)), 2);
    assert_eq!(count(whole, None), 0);
}

/// Otherwise an interrupted verification would count as complete in metrics.
#[test]
fn a_reading_that_ended_early_compares_no_whole_tables() {
    let early = Reading::default().interrupted();
    assert!(!early.is_verification(&Extent::whole()));
    let complete = Reading {
        whole: Some(LiveChains::default()),
        ..Reading::default()
    };
    assert!(complete.is_verification(&Extent::whole()));
    assert!(!complete.interrupted().is_verification(&Extent::whole()));
    let took = Duration::from_secs(1);
    let failed = Reading::default().abandoned(&Extent::whole(), None, took);
    assert!(failed.is_verification(&Extent::whole()));
}

/// Very large rulesets may take longer to read than a due sync waits, each time.
#[test]
fn rereads_come_at_growing_intervals() {
    let now = instant();
    let mut detection = DriftDetection::new(Some(MINUTES), None, now);
    let failure = missing_program();
    let delays = (0..8).map(|_| {
        detection.count_failed_readings(true, Some(&failure));
        detection.postpone(&Extent::whole(), now);
        let at = detection.reread_at.unwrap();
        detection.take_to_reread();
        (at - now).as_secs()
    });
    let expected = [5, 10, 20, 40, 80, 160, 300, 300];
    assert_eq!(delays.collect::<Vec<_>>(), expected);
}
