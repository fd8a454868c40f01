//! Schedule of verifications, which compare all rules in the kernel with the applied ones.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::budget::Ran;
use crate::host::{ChangeSource, ForeignChange};

/// A verification may take one part in this many of the time of one CPU: 0.5 %.
const SHARE: u32 = 200;

/// Pause after a check or a verification because of a change by another program, in multiples of
/// the time it took.
pub(super) const PAUSE: u32 = 2;

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

/// Schedule of verifications of one family.
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

    /// Never verifies anything: this is a dry run.
    pub(super) fn disabled(now: Instant) -> Self {
        Self {
            is_enabled: false,
            ..Self::new(None, now)
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

    const MINUTES: Duration = Duration::from_secs(300);

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
        let mut dry_run = Schedule::disabled(now);
        dry_run.soon(now);
        assert_eq!(dry_run.next(), None);
    }
}
