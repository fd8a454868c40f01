//! Schedules verifications, which compare all rules in the kernel with the applied ones.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::pacer::RunTimes;
use crate::host::{ChangeSource, ForeignChange};

/// Reciprocal of the share of one CPU that verifications may take: 0.5 %.
const SHARE: u32 = 200;

/// Pause after a check or a verification because of a change by another program, as a multiple of
/// its duration.
pub(super) const PAUSE: u32 = 2;

/// Number of times that checks of single chains may interrupt a verification before it runs to its
/// end: at 10,000 Services it reads for more than a second.
const MOST_GIVEN_WAY: u32 = 10;

/// Cause of a check of the rules in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckTrigger {
    /// Another program changed rules.
    Change(ChangeSource),
    /// The check interval (the sync period) is over.
    Period,
    /// The verification interval is over.
    Interval,
    /// An earlier restore failed, an earlier check found single rules missing, or it could not
    /// read everything.
    FollowUp,
}

impl CheckTrigger {
    /// All causes.
    pub(crate) const ALL: [Self; 6] = [
        Self::Change(ChangeSource::Events),
        Self::Change(ChangeSource::LostEvents),
        Self::Change(ChangeSource::TableSizes),
        Self::Period,
        Self::Interval,
        Self::FollowUp,
    ];

    /// Returns the value in logs and metric labels.
    pub(crate) const fn as_str(self) -> &'static str {
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
pub(super) struct VerificationSchedule {
    /// False in a dry run, which writes no rules.
    is_enabled: bool,
    /// Interval; `None`: only after failures.
    every: Option<Duration>,
    next: Option<Instant>,
    trigger: CheckTrigger,
    /// Generation of the rules at the last verification, where the kernel counts them.
    generation: Option<u32>,
    /// Number of interruptions of the current verification.
    given_way: u32,
    /// Time spent on the interrupted reads.
    spent: Duration,
    /// Earliest time of a verification because of a change by another program.
    not_before: Option<Instant>,
    programs: BTreeSet<String>,
}

impl VerificationSchedule {
    /// Returns a schedule whose first verification is due after the interval.
    pub(super) fn new(every: Option<Duration>, now: Instant) -> Self {
        Self {
            is_enabled: true,
            every,
            next: every.and_then(|every| now.checked_add(every)),
            trigger: CheckTrigger::Interval,
            generation: None,
            given_way: 0,
            spent: Duration::ZERO,
            not_before: None,
            programs: BTreeSet::new(),
        }
    }

    /// Returns a schedule without verifications, for a dry run.
    pub(super) fn disabled(now: Instant) -> Self {
        Self {
            is_enabled: false,
            ..Self::new(None, now)
        }
    }

    /// Returns the time of the next verification, if there is one.
    pub(super) const fn next(&self) -> Option<Instant> {
        self.next
    }

    pub(super) const fn trigger(&self) -> CheckTrigger {
        self.trigger
    }

    /// Schedules a verification at once.
    pub(super) fn soon(&mut self, now: Instant) {
        if self.is_enabled {
            self.next = Some(now);
            self.trigger = CheckTrigger::FollowUp;
        }
    }

    /// Schedules a verification because another program changed chains that are not known by name:
    /// at once, or after the pause that follows the last verification.
    pub(super) fn changed(&mut self, change: &ForeignChange, now: Instant) {
        if self.is_enabled && !self.is_requested() {
            self.next = Some(self.not_before.map_or(now, |pause| pause.max(now)));
            self.trigger = CheckTrigger::Change(change.source);
        }
        self.programs.extend(change.programs.iter().cloned());
    }

    /// Reports whether a verification is due for another reason than its interval.
    pub(super) fn is_requested(&self) -> bool {
        self.trigger != CheckTrigger::Interval && self.next.is_some()
    }

    /// Reports whether no program has changed any rule since the last verification.
    pub(super) fn is_unchanged(&self, generation: Option<u32>) -> bool {
        self.trigger == CheckTrigger::Interval
            && generation.is_some()
            && self.generation == generation
    }

    /// Returns the names of the programs that caused the next verification, if known.
    pub(super) const fn programs(&self) -> &BTreeSet<String> {
        &self.programs
    }

    /// Reports whether the check of single chains may interrupt a verification.
    pub(super) const fn may_give_way(&self) -> bool {
        self.given_way < MOST_GIVEN_WAY
    }

    /// Notes that a verification was interrupted after this time; it is restarted.
    pub(super) fn gave_way(&mut self, took: Duration, now: Instant) {
        self.given_way = self.given_way.saturating_add(1);
        self.spent = self.spent.saturating_add(took);
        self.next = Some(now);
    }

    /// Notes the end of a verification, and schedules the next one.
    pub(super) fn finished(&mut self, ran: &RunTimes, generation: Option<u32>) {
        let &RunTimes {
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
        self.trigger = CheckTrigger::Interval;
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
    fn ran(now: Instant, cpu: Duration) -> RunTimes {
        RunTimes {
            started: now.checked_sub(cpu).unwrap_or(now),
            ended: now,
            cpu,
        }
    }

    const MINUTES: Duration = Duration::from_secs(300);

    #[test]
    fn lost_events_cause_verifications_with_pauses() {
        let now = start();
        let mut schedule = VerificationSchedule::new(Some(MINUTES), now);
        let mut lost = ForeignChange::unknown(ChangeSource::LostEvents, []);
        lost.by("nft");
        schedule.changed(&lost, now);
        assert_eq!(schedule.next(), Some(now));
        assert_eq!(schedule.trigger(), CheckTrigger::Change(lost.source));
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
            (Some(ended), CheckTrigger::FollowUp)
        );
    }

    #[test]
    fn a_verification_is_interrupted_a_limited_number_of_times() {
        let now = start();
        let second = Duration::from_secs(1);
        let mut schedule = VerificationSchedule::new(Some(MINUTES), now);
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
        let mut schedule = VerificationSchedule::new(Some(MINUTES), now);
        assert_eq!(schedule.next(), Some(now + MINUTES));
        schedule.finished(&ran(now, Duration::from_millis(100)), None);
        assert_eq!(schedule.next(), Some(now + MINUTES));
        schedule.finished(&ran(now, Duration::from_secs(6)), None);
        assert_eq!(schedule.next(), Some(now + Duration::from_secs(1200)));
    }

    #[test]
    fn nothing_is_read_while_the_generation_stays_the_same() {
        let now = start();
        let mut schedule = VerificationSchedule::new(Some(MINUTES), now);
        assert!(!schedule.is_unchanged(Some(7)));
        schedule.finished(&ran(now, Duration::ZERO), Some(7));
        assert!(schedule.is_unchanged(Some(7)));
        assert!(!schedule.is_unchanged(Some(8)));
        assert!(!schedule.is_unchanged(None));
        schedule.soon(now);
        assert_eq!(
            (schedule.next(), schedule.trigger()),
            (Some(now), CheckTrigger::FollowUp)
        );
        assert!(!schedule.is_unchanged(Some(7)));
    }

    #[test]
    fn without_an_interval_rules_are_compared_only_after_failures() {
        let now = start();
        let mut schedule = VerificationSchedule::new(None, now);
        assert_eq!(schedule.next(), None);
        schedule.soon(now);
        assert_eq!(schedule.next(), Some(now));
        schedule.finished(&ran(now, Duration::from_secs(1)), None);
        assert_eq!(schedule.next(), None);
        let mut dry_run = VerificationSchedule::disabled(now);
        dry_run.soon(now);
        assert_eq!(dry_run.next(), None);
    }
}
