//! State of the checks of one family: findings that wait for a repair or another reading.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::backoff::{Backoff, Key};
use super::canary::Canary;
use super::extent::Extent;
use super::schedule::{PAUSE, Schedule};
use crate::host::{ChangeDetection, ForeignChange};

/// Wait before rules are read again that could not be read, as while another program holds the
/// lock.
const REREAD: Duration = Duration::from_secs(5);

/// Shortest pause after a check because of a change by another program. A command of `iptables`
/// takes some milliseconds.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// State of the checks of one family.
#[derive(Debug)]
pub(super) struct Checks {
    pub(super) canary: Canary,
    pub(super) backoff: Backoff,
    pub(super) schedule: Schedule,
    /// Time of the repair of rules that another program keeps changing.
    pub(super) repair_at: Option<Instant>,
    /// Time at which the oldest difference was found that is not repaired yet.
    pub(super) drifted_at: Option<Instant>,
    /// Chains that differ and are not repaired yet.
    pub(super) drifted: BTreeSet<Key>,
    /// Rules that an earlier check could not read.
    pub(super) unread: Extent,
    /// Time at which these are read.
    pub(super) reread_at: Option<Instant>,
    /// No check because of a change by another program before this: programs that change rules
    /// without a pause must not keep this one from anything else.
    pub(super) next_change: Option<Instant>,
    /// Change by another program that was reported during a verification.
    pub(super) pending_change: Option<ForeignChange>,
    /// The last comparison has read everything.
    pub(super) is_verified: bool,
}

impl Checks {
    /// Checks in each period, and verifies in each interval; `None`: never.
    pub(super) fn new(period: Option<Duration>, verify: Option<Duration>, now: Instant) -> Self {
        Self {
            canary: Canary::new(period, now),
            backoff: Backoff::default(),
            schedule: match period {
                Some(_) => Schedule::new(verify, now),
                None => Schedule::disabled(now),
            },
            repair_at: None,
            drifted_at: None,
            drifted: BTreeSet::new(),
            unread: Extent::default(),
            reread_at: None,
            next_change: None,
            pending_change: None,
            is_verified: false,
        }
    }

    /// Notes that this has to be read later.
    pub(super) fn postpone(&mut self, unread: Extent, now: Instant) {
        if !unread.is_empty() {
            self.unread.merge(unread);
            self.reread_at.get_or_insert(now + REREAD);
        }
    }

    /// Takes what an earlier check could not read.
    pub(super) fn take_unread(&mut self) -> Extent {
        self.reread_at = None;
        std::mem::take(&mut self.unread)
    }

    /// Notes that a check ended that a change by another program has caused.
    pub(super) fn compared_change(&mut self, started: Instant, now: Instant) {
        let took = now.saturating_duration_since(started);
        self.next_change = now.checked_add(took.saturating_mul(PAUSE).max(SHORTEST_PAUSE));
    }

    /// Returns how long the repair of these chains waits; those that wait already are not counted
    /// again.
    pub(super) fn wait(&mut self, found: BTreeSet<Key>, now: Instant) -> Duration {
        let new: Vec<Key> = found.difference(&self.drifted).cloned().collect();
        let is_waiting = new.is_empty() && self.repair_at.is_some();
        let wait = self.backoff.wait(new, now);
        self.drifted.extend(found);
        match self.repair_at {
            Some(repair_at) if is_waiting => repair_at.saturating_duration_since(now),
            _ => wait,
        }
    }

    /// Notes that a sync has repaired everything; returns when the oldest difference was found.
    pub(super) fn repaired(&mut self) -> Option<Instant> {
        self.repair_at = None;
        self.drifted.clear();
        self.drifted_at.take()
    }

    /// Extent of the check in each period.
    pub(super) fn periodic(&self, detection: ChangeDetection) -> Extent {
        Extent {
            tables: self.canary.periodic(detection).into_iter().collect(),
            ..Extent::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            checks.repaired();
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
}
