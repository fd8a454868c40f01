//! When our rules in the kernel are checked and verified, and when they are repaired.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::backoff::{Backoff, Key};
use super::budget::Ran;
use super::canary::Canary;
use super::extent::Extent;
use crate::host::{ChangeSource, ForeignChange, Watched};

/// A verification may take one part in this many of the time of one CPU: 0.5 %.
const SHARE: u32 = 200;

/// Wait before rules are read again that could not be read, as while another program holds the
/// lock.
const REREAD: Duration = Duration::from_secs(5);

/// Pause after a check or a verification because of a change by another program, in multiples of
/// the time it took.
const PAUSE: u32 = 2;

/// Shortest such pause. A command of `iptables` takes some milliseconds.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// Times that a verification gives way to the check of single chains before it is finished
/// whatever changes: at 10,000 Services it reads for more than a second.
const MOST_GIVEN_WAY: u32 = 10;

/// Cause of a check of our rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Another program changed something.
    Change(ChangeSource),
    /// The sync period is over.
    Period,
    /// The verify interval is over.
    Interval,
    /// A restore failed before the last one succeeded, single rules of ours were missing, or an
    /// earlier check could not read everything.
    FollowUp,
}

impl Trigger {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Change(ChangeSource::Events),
        Self::Change(ChangeSource::LostEvents),
        Self::Change(ChangeSource::Counters),
        Self::Period,
        Self::Interval,
        Self::FollowUp,
    ];

    /// As logs and metric labels have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Change(source) => source.as_str(),
            Self::Period => "period",
            Self::Interval => "interval",
            Self::FollowUp => "follow_up",
        }
    }
}

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

/// Schedule of comparisons of all rules.
#[derive(Debug)]
pub(super) struct Schedule {
    /// The rules in the kernel are ours: this is not a dry run.
    is_enabled: bool,
    /// `None`: only after failures.
    every: Option<Duration>,
    next: Option<Instant>,
    trigger: Trigger,
    /// Generation of the rules at the last verification, where the kernel counts them.
    generation: Option<u32>,
    /// Times that the verification under way gave way.
    given_way: u32,
    /// Time that it took until then, on one CPU at most.
    spent: Duration,
    /// No verification because of a change by another program before this.
    not_before: Option<Instant>,
    programs: BTreeSet<String>,
}

impl Schedule {
    /// The first one comes after the interval.
    pub(super) fn new(every: Option<Duration>, now: Instant) -> Self {
        Self {
            is_enabled: true,
            every,
            next: every.and_then(|every| now.checked_add(every)),
            trigger: Trigger::Interval,
            generation: None,
            given_way: 0,
            spent: Duration::ZERO,
            not_before: None,
            programs: BTreeSet::new(),
        }
    }

    /// Never compares anything.
    const fn disabled() -> Self {
        Self {
            is_enabled: false,
            every: None,
            next: None,
            trigger: Trigger::Interval,
            generation: None,
            given_way: 0,
            spent: Duration::ZERO,
            not_before: None,
            programs: BTreeSet::new(),
        }
    }

    /// Time of the next comparison, if there is one.
    pub(super) const fn next(&self) -> Option<Instant> {
        self.next
    }

    pub(super) const fn trigger(&self) -> Trigger {
        self.trigger
    }

    /// Asks for a verification at once.
    pub(super) fn soon(&mut self, now: Instant) {
        if self.is_enabled {
            self.next = Some(now);
            self.trigger = Trigger::FollowUp;
        }
    }

    /// Asks for a verification because another program changed more than is known by name: at
    /// once, or when the pause after the last one is over.
    pub(super) fn changed(&mut self, change: &ForeignChange, now: Instant) {
        let is_asked_for = self.trigger != Trigger::Interval && self.next.is_some();
        if self.is_enabled && !is_asked_for {
            self.next = Some(self.not_before.map_or(now, |pause| pause.max(now)));
            self.trigger = Trigger::Change(change.source);
        }
        self.programs.extend(change.programs.iter().cloned());
    }

    /// Reports whether no program has changed any rule since the last verification.
    pub(super) fn is_unchanged(&self, generation: Option<u32>) -> bool {
        self.trigger == Trigger::Interval && generation.is_some() && self.generation == generation
    }

    /// Names of the programs that caused the next verification, as far as they are known.
    pub(super) const fn programs(&self) -> &BTreeSet<String> {
        &self.programs
    }

    /// Reports whether the check of single chains may interrupt a verification.
    pub(super) const fn may_give_way(&self) -> bool {
        self.given_way < MOST_GIVEN_WAY
    }

    /// Notes that a verification gave way after this time; it starts again.
    pub(super) fn gave_way(&mut self, took: Duration, now: Instant) {
        self.given_way = self.given_way.saturating_add(1);
        self.spent = self.spent.saturating_add(took);
        self.next = Some(now);
    }

    /// A verification of all rules ended.
    pub(super) fn finished(&mut self, ran: &Ran, generation: Option<u32>) {
        let &Ran {
            started,
            ended: now,
            cpu,
        } = ran;
        let took = now.saturating_duration_since(started);
        self.not_before = now.checked_add(took.saturating_mul(PAUSE));
        let cpu = cpu.saturating_add(std::mem::take(&mut self.spent));
        self.given_way = 0;
        self.programs.clear();
        let wait = self.every.map(|every| every.max(cpu.saturating_mul(SHARE)));
        self.next = wait.and_then(|wait| now.checked_add(wait));
        self.trigger = Trigger::Interval;
        self.generation = generation;
    }
}

impl Checks {
    /// Checks in each period, and verifies in each interval; `None`: never.
    pub(super) fn new(period: Option<Duration>, verify: Option<Duration>, now: Instant) -> Self {
        Self {
            canary: Canary::new(period, now),
            backoff: Backoff::default(),
            schedule: match period {
                Some(_) => Schedule::new(verify, now),
                None => Schedule::disabled(),
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
    pub(super) fn periodic(&self, watched: Watched) -> Extent {
        Extent {
            tables: self.canary.periodic(watched).into_iter().collect(),
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

    /// A verification that ends now.
    fn ran(now: Instant, cpu: Duration) -> Ran {
        Ran {
            started: now.checked_sub(cpu).unwrap_or(now),
            ended: now,
            cpu,
        }
    }

    #[test]
    fn lost_events_cause_verifications_with_pauses() {
        let now = start();
        let mut schedule = Schedule::new(Some(MINUTES), now);
        let mut lost = ForeignChange::unknown(ChangeSource::LostEvents, []);
        lost.by("nft");
        schedule.changed(&lost, now);
        assert_eq!(schedule.next(), Some(now));
        assert_eq!(schedule.trigger(), Trigger::Change(lost.source));
        assert_eq!(*schedule.programs(), lost.programs);
        let ended = now + Duration::from_secs(3);
        schedule.finished(&ran(ended, Duration::from_secs(3)), None);
        assert!(schedule.programs().is_empty());
        schedule.changed(&lost, ended);
        assert_eq!(schedule.next(), Some(ended + Duration::from_secs(6)));
        // What is asked for already comes no later.
        schedule.soon(ended);
        schedule.changed(&lost, ended);
        assert_eq!(
            (schedule.next(), schedule.trigger()),
            (Some(ended), Trigger::FollowUp)
        );
    }

    #[test]
    fn a_verification_gives_way_only_so_often() {
        let now = start();
        let second = Duration::from_secs(1);
        let mut schedule = Schedule::new(Some(MINUTES), now);
        for _ in 0..MOST_GIVEN_WAY {
            assert!(schedule.may_give_way());
            schedule.gave_way(second, now);
            assert_eq!(schedule.next(), Some(now));
        }
        assert!(!schedule.may_give_way());
        schedule.finished(&ran(now, second), None);
        assert!(schedule.may_give_way());
        // All readings count: eleven seconds are half a percent of this.
        let wait = second * (MOST_GIVEN_WAY + 1) * SHARE;
        assert_eq!(schedule.next(), Some(now + wait));
    }

    const MINUTES: Duration = Duration::from_secs(300);

    #[test]
    fn a_verification_takes_at_most_half_a_percent_of_a_cpu() {
        let now = start();
        let mut schedule = Schedule::new(Some(MINUTES), now);
        assert_eq!(schedule.next(), Some(now + MINUTES));
        schedule.finished(&ran(now, Duration::from_millis(100)), None);
        assert_eq!(schedule.next(), Some(now + MINUTES));
        schedule.finished(&ran(now, Duration::from_secs(6)), None);
        assert_eq!(schedule.next(), Some(now + Duration::from_secs(1200)));
    }

    #[test]
    fn nothing_is_read_while_the_generation_stays_the_same() {
        let now = start();
        let mut schedule = Schedule::new(Some(MINUTES), now);
        assert!(!schedule.is_unchanged(Some(7)));
        schedule.finished(&ran(now, Duration::ZERO), Some(7));
        assert!(schedule.is_unchanged(Some(7)));
        assert!(!schedule.is_unchanged(Some(8)));
        assert!(!schedule.is_unchanged(None));
        schedule.soon(now);
        assert_eq!(
            (schedule.next(), schedule.trigger()),
            (Some(now), Trigger::FollowUp)
        );
        assert!(!schedule.is_unchanged(Some(7)));
    }

    #[test]
    fn without_an_interval_rules_are_compared_only_after_failures() {
        let now = start();
        let mut schedule = Schedule::new(None, now);
        assert_eq!(schedule.next(), None);
        schedule.soon(now);
        assert_eq!(schedule.next(), Some(now));
        schedule.finished(&ran(now, Duration::from_secs(1)), None);
        assert_eq!(schedule.next(), None);
        let mut dry_run = Schedule::disabled();
        dry_run.soon(now);
        assert_eq!(dry_run.next(), None);
    }

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
