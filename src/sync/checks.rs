//! State of the checks of one family: findings that wait for a repair or another reading.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::drift::{ChainKey, ComparisonDepth, Extent};
use super::guarded_chain_check::GuardedChainCheck;
use super::repair_backoff::RepairBackoff;
use super::schedule::{PAUSE, VerificationSchedule};
use crate::host::{ChangeDetection, ForeignChange, RunError};

/// Wait before another read of rules that could not be read, for example while another program
/// held the xtables lock.
const REREAD: Duration = Duration::from_secs(5);

/// Shortest pause after a check because of a change by another program. A command of `iptables`
/// takes some milliseconds.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// State of the checks of one family.
#[derive(Debug)]
pub(super) struct Checks {
    pub(super) guarded_chains: GuardedChainCheck,
    pub(super) backoff: RepairBackoff,
    pub(super) schedule: VerificationSchedule,
    /// Time of the delayed repair of rules that another program keeps changing.
    pub(super) repair_at: Option<Instant>,
    /// Time at which the oldest difference was found whose repair is not reported yet.
    drifted_at: Option<Instant>,
    /// Time at which a sync repaired all differences that were found so far.
    repaired_at: Option<Instant>,
    /// Chains that differ and are not repaired yet.
    pub(super) drifted: BTreeSet<ChainKey>,
    /// Rules that an earlier check could not read.
    pub(super) unread: Extent,
    /// Time of the next attempt to read them.
    pub(super) reread_at: Option<Instant>,
    /// Earliest time of the next check because of a change by another program: frequent changes
    /// must not take all of the task's time.
    pub(super) next_change_check: Option<Instant>,
    /// Change by another program that was reported during a verification.
    pub(super) pending_change: Option<ForeignChange>,
    /// The last comparison could read everything.
    pub(super) has_read_all: bool,
    /// Number of comparisons that could not read a table, since the last one that read all rules.
    failed_readings: u32,
}

impl Checks {
    /// Returns the state for checks in each `period` and verifications in each interval. `None`
    /// for the period: never; for the interval: only after failures, and after changes by other
    /// programs.
    pub(super) fn new(period: Option<Duration>, verify: Option<Duration>, now: Instant) -> Self {
        Self {
            guarded_chains: GuardedChainCheck::new(period, now),
            backoff: RepairBackoff::default(),
            schedule: match period {
                Some(_) => VerificationSchedule::new(verify, now),
                None => VerificationSchedule::disabled(now),
            },
            repair_at: None,
            drifted_at: None,
            repaired_at: None,
            drifted: BTreeSet::new(),
            unread: Extent::default(),
            reread_at: None,
            next_change_check: None,
            pending_change: None,
            has_read_all: false,
            failed_readings: 0,
        }
    }

    /// Notes rules that have to be read later.
    pub(super) fn postpone(&mut self, unread: Extent, now: Instant) {
        if !unread.is_empty() {
            self.unread.merge(unread);
            self.reread_at.get_or_insert(now + REREAD);
        }
    }

    /// Takes the rules that an earlier check could not read.
    pub(super) fn take_unread(&mut self) -> Extent {
        self.reread_at = None;
        std::mem::take(&mut self.unread)
    }

    /// Notes the end of a check that a change by another program caused.
    pub(super) fn compared_change(&mut self, started: Instant, now: Instant) {
        let took = now.saturating_duration_since(started);
        self.next_change_check = now.checked_add(took.saturating_mul(PAUSE).max(SHORTEST_PAUSE));
    }

    /// Returns the delay of the repair of these chains. Chains whose repair is pending are not
    /// counted again.
    pub(super) fn wait(&mut self, found: BTreeSet<ChainKey>, now: Instant) -> Duration {
        let new: Vec<ChainKey> = found.difference(&self.drifted).cloned().collect();
        let is_waiting = new.is_empty() && self.repair_at.is_some();
        let wait = self.backoff.wait(new, now);
        self.drifted.extend(found);
        match self.repair_at {
            Some(repair_at) if is_waiting => repair_at.saturating_duration_since(now),
            _ => wait,
        }
    }

    /// Notes that a comparison which began at this time found differences.
    pub(super) fn found_drift(&mut self, at: Instant) {
        self.drifted_at.get_or_insert(at);
        self.repaired_at = None;
    }

    /// Notes that a sync repaired all differences that were found so far. Reports whether there
    /// were any.
    pub(super) fn repaired(&mut self, now: Instant) -> bool {
        self.repair_at = None;
        self.drifted.clear();
        let had_drift = self.drifted_at.is_some() && self.repaired_at.is_none();
        if had_drift {
            self.repaired_at = Some(now);
        }
        had_drift
    }

    /// Takes the time from finding changed rules to having repaired them, if all are repaired: a
    /// requested verification may find more.
    pub(super) fn take_repair_time(&mut self) -> Option<Duration> {
        if self.schedule.is_requested() {
            return None;
        }
        let repaired_at = self.repaired_at.take()?;
        let drifted_at = self.drifted_at.take()?;
        Some(repaired_at.saturating_duration_since(drifted_at))
    }

    /// Notes whether a comparison of this depth could read all of its rules. Returns the number of
    /// comparisons that could not, since the last one that read all rules.
    pub(super) fn count_failed_readings(
        &mut self,
        depth: ComparisonDepth,
        failure: Option<&RunError>,
    ) -> u32 {
        match (failure, depth) {
            (Some(_), _) => self.failed_readings = self.failed_readings.saturating_add(1),
            (None, ComparisonDepth::Whole) => self.failed_readings = 0,
            (None, ComparisonDepth::Named) => {}
        }
        self.failed_readings
    }

    /// Returns the extent of the check in each period.
    pub(super) fn periodic(&self, detection: ChangeDetection) -> Extent {
        Extent {
            tables: self
                .guarded_chains
                .periodic(detection)
                .into_iter()
                .collect(),
            ..Extent::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::pacer::RunTimes;

    #[expect(
        clippy::disallowed_methods,
        reason = "an Instant cannot be made otherwise"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    const MINUTES: Duration = Duration::from_secs(300);

    #[test]
    fn a_chain_that_waits_for_its_repair_is_counted_once() {
        let now = start();
        let mut checks = Checks::new(Some(MINUTES), None, now);
        let chain = || BTreeSet::from([(crate::rules::Table::Nat, Box::from("A"))]);
        for _ in 0..3 {
            assert_eq!(checks.wait(chain(), now), Duration::ZERO);
            checks.repaired(now);
        }
        let wait = checks.wait(chain(), now);
        assert_eq!(wait, Duration::from_secs(1));
        checks.repair_at = Some(now + wait);
        for _ in 0..5 {
            assert_eq!(checks.wait(chain(), now), wait);
        }
        let other = BTreeSet::from([(crate::rules::Table::Nat, Box::from("B"))]);
        assert_eq!(checks.wait(other, now), Duration::ZERO);
    }

    #[test]
    fn a_repair_in_two_steps_is_reported_once() {
        let (now, second) = (start(), Duration::from_secs(1));
        let mut checks = Checks::new(Some(MINUTES), Some(MINUTES), now);
        assert!(!checks.repaired(now));
        assert_eq!(checks.take_repair_time(), None);
        // Events were lost: fixed chains are checked at once, and all other rules after that.
        checks.found_drift(now);
        checks.schedule.soon(now);
        assert!(checks.repaired(now + second));
        assert_eq!(checks.take_repair_time(), None);
        checks.found_drift(now + second * 2);
        let ran = RunTimes {
            started: now,
            ended: now,
            cpu: Duration::ZERO,
        };
        checks.schedule.finished(&ran, None);
        assert_eq!(checks.take_repair_time(), None);
        assert!(checks.repaired(now + second * 3));
        assert_eq!(checks.take_repair_time(), Some(second * 3));
        assert!(!checks.repaired(now + second * 4));
        assert_eq!(checks.take_repair_time(), None);
        // The verification finds nothing more: the repair ended with the sync.
        checks.found_drift(now);
        checks.schedule.soon(now);
        assert!(checks.repaired(now + second));
        checks.schedule.finished(&ran, None);
        assert_eq!(checks.take_repair_time(), Some(second));
    }

    #[test]
    fn failed_readings_are_counted_until_all_rules_are_read() {
        let mut checks = Checks::new(Some(MINUTES), None, start());
        let failure = RunError::Spawn {
            program: "iptables-save".to_owned(),
            cause: std::io::ErrorKind::NotFound.into(),
        };
        let (named, whole) = (ComparisonDepth::Named, ComparisonDepth::Whole);
        let mut count = |depth, failure| checks.count_failed_readings(depth, failure);
        assert_eq!(count(named, None), 0);
        assert_eq!(count(whole, Some(&failure)), 1);
        // A chain that can be read says nothing about the rest of the table.
        assert_eq!(count(named, None), 1);
        assert_eq!(count(named, Some(&failure)), 2);
        assert_eq!(count(whole, None), 0);
    }
}
