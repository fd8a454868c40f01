//! Schedule of checks, and of rewrites of chains with third-party rules.

use super::*;
use crate::clock::instant;
use crate::host::Fake;
use crate::net::IpFamily;

/// Waits between checks of a flushed kernel, or of one of unknown state.
async fn waits(every: Duration, checks: &[Option<&Options>]) -> Vec<Duration> {
    let start = instant();
    let kernel = Fake::default();
    let mut guarded_chains = GuardedChainMonitor::new(Some(every), start);
    let mut waits = Vec::new();
    let mut now = start;
    for written in checks {
        let next = guarded_chains.next_check().unwrap();
        waits.push(next - now);
        now = next;
        let result = match written {
            Some(options) => {
                guarded_chains
                    .check(&kernel, options, &TABLES.into(), now)
                    .await
            }
            None => GuardedChainFindings::default(),
        };
        guarded_chains.schedule(&result, now);
        assert_eq!(result.gone.is_some(), written.is_some());
    }
    waits.push(guarded_chains.next_check().unwrap() - now);
    waits
}

#[tokio::test]
async fn a_loss_is_followed_by_two_early_checks() {
    let options = Options::defaults(IpFamily::V4);
    let [known, unknown] = [Some(&options), None];
    let seconds = |seconds: &[u64]| -> Vec<_> {
        let all = seconds.iter();
        all.map(|seconds| Duration::from_secs(*seconds)).collect()
    };
    let period = Duration::from_secs(30);
    let quiet = waits(period, &[unknown, unknown]).await;
    assert_eq!(quiet, seconds(&[30, 30, 30]));
    let once = waits(period, &[known, unknown, unknown, unknown]).await;
    assert_eq!(once, seconds(&[30, 1, 5, 30, 30]));
    // A program that never stops flushing causes three restores in each period.
    let always = waits(period, &[known; 5]).await;
    assert_eq!(always, seconds(&[30, 1, 5, 30, 1, 5]));
    let often = waits(Duration::from_secs(2), &[known, known, known]).await;
    assert_eq!(often, seconds(&[2, 1, 2, 2]));
}

#[tokio::test]
async fn a_dry_run_never_checks() {
    let now = instant();
    let options = Options::defaults(IpFamily::V4);
    let mut guarded_chains = GuardedChainMonitor::new(None, now);
    assert_eq!(guarded_chains.next_check(), None);
    let result = guarded_chains
        .check(&Fake::default(), &options, &TABLES.into(), now)
        .await;
    guarded_chains.schedule(&result, now);
    assert_eq!(guarded_chains.next_check(), None);
}

#[test]
fn an_abandoned_check_keeps_its_findings() {
    let now = instant();
    let mut guarded_chains = GuardedChainMonitor::new(None, now);
    let after = Duration::from_secs(5);
    assert!(guarded_chains.abandoned(after).is_none());
    let findings = GuardedChainFindings {
        readable_again: vec![Table::Mangle],
        ..GuardedChainFindings::default()
    };
    guarded_chains.running = Some((Table::Filter, findings));
    let findings = guarded_chains.abandoned(after).unwrap();
    assert_eq!(findings.readable_again, [Table::Mangle]);
    let [(table, _)] = findings.newly_unreadable[..] else {
        panic!("{findings:?}");
    };
    assert_eq!(table, Table::Filter);
    assert_eq!(*guarded_chains.unreadable(), [Table::Filter].into());
    assert!(guarded_chains.abandoned(after).is_none());
}

const FORWARD: (Table, &str) = (Table::Filter, "KUBE-FORWARD");

/// Seconds at which the chain is rewritten, checked every 30 s, if it is found edited then.
fn rewrites(is_edited: impl Fn(u64) -> bool, until: u64) -> Vec<u64> {
    let start = instant();
    let mut chains = RewriteBackoff::default();
    let seconds = (0..until).step_by(30);
    let due = seconds.filter(|second| {
        let found = if is_edited(*second) {
            &[FORWARD][..]
        } else {
            &[]
        };
        let now = start + Duration::from_secs(*second);
        !chains
            .due(found, &Table::ALL, Duration::from_secs(30), now)
            .is_empty()
    });
    due.collect()
}

#[test]
fn rules_that_keep_coming_back_are_removed_at_growing_intervals() {
    let hours = 4 * 3600;
    let always = rewrites(|_| true, hours);
    assert_eq!(always, [0, 30, 90, 210, 450, 930, 1890, 3810, 7410, 11010]);
}

#[test]
fn a_rule_that_stays_away_is_forgotten() {
    // Once, and again ten minutes later.
    assert_eq!(rewrites(|second| second % 600 == 0, 1300), [0, 600, 1200]);
}

#[test]
fn a_failed_check_does_not_reset_the_wait_between_rewrites() {
    let start = instant();
    let period = Duration::from_secs(30);
    let mut chains = RewriteBackoff::default();
    let first = chains.due(&[FORWARD], &Table::ALL, period, start);
    // The wait is over when the next check runs, which reads no table.
    let failed = chains.due(&[], &[], period, start + period);
    let second = chains.due(&[FORWARD], &Table::ALL, period, start + 2 * period);
    let ([first], [], [second]) = (&first[..], &failed[..], &second[..]) else {
        panic!("{first:?} {failed:?} {second:?}");
    };
    assert!(
        second.is_back && second.wait == 2 * first.wait,
        "{second:?}"
    );
}
