//! The schedule of verifications.

use super::*;
use crate::clock::instant;
use crate::host::ChangeSource;

/// A verification that ends now.
pub(super) fn ran(now: Instant, cpu: Duration) -> RunTimes {
    RunTimes {
        started: now.checked_sub(cpu).unwrap_or(now),
        ended: now,
        cpu,
    }
}

pub(super) const MINUTES: Duration = Duration::from_secs(300);

#[test]
fn lost_events_cause_verifications_with_pauses() {
    let now = instant();
    let mut schedule = VerificationSchedule::new(Some(MINUTES), now);
    let mut lost = ForeignChange::unknown(ChangeSource::LostEvents, []);
    lost.by("nft");
    schedule.changed(&lost, now);
    assert_eq!(schedule.next(), Some(now));
    assert_eq!(schedule.trigger(), ComparisonTrigger::Change(lost.source));
    assert_eq!(schedule.programs(), lost.programs);
    let ended = now + Duration::from_secs(3);
    schedule.finished(&ran(ended, Duration::from_secs(3)), None);
    assert!(schedule.programs().is_empty());
    schedule.changed(&lost, ended);
    assert_eq!(schedule.next(), Some(ended + Duration::from_secs(6)));
    // What is asked for already comes no later.
    schedule.request(ended);
    schedule.changed(&lost, ended);
    assert_eq!(schedule.next(), Some(ended));
    assert_eq!(schedule.trigger(), ComparisonTrigger::FollowUp);
}

#[test]
fn a_verification_is_interrupted_a_limited_number_of_times() {
    let now = instant();
    let second = Duration::from_secs(1);
    let mut schedule = VerificationSchedule::new(Some(MINUTES), now);
    for _ in 0..MAX_INTERRUPTIONS {
        assert!(schedule.may_be_interrupted());
        schedule.interrupted(second, now);
        assert_eq!(schedule.next(), Some(now));
    }
    assert!(!schedule.may_be_interrupted());
    schedule.finished(&ran(now, second), None);
    assert!(schedule.may_be_interrupted());
    // All readings count: eleven seconds are half a percent of this.
    let wait = second * (MAX_INTERRUPTIONS + 1) * INTERVAL_FACTOR;
    assert_eq!(schedule.next(), Some(now + wait));
}

#[test]
fn a_verification_takes_at_most_half_a_percent_of_a_cpu() {
    let now = instant();
    let mut schedule = VerificationSchedule::new(Some(MINUTES), now);
    assert_eq!(schedule.next(), Some(now + MINUTES));
    schedule.finished(&ran(now, Duration::from_millis(100)), None);
    assert_eq!(schedule.next(), Some(now + MINUTES));
    schedule.finished(&ran(now, Duration::from_secs(6)), None);
    assert_eq!(schedule.next(), Some(now + Duration::from_secs(1200)));
}

#[test]
fn nothing_is_read_while_the_generation_stays_the_same() {
    let now = instant();
    let events = ChangeDetection::ByEvents;
    let mut schedule = VerificationSchedule::new(Some(MINUTES), now);
    assert!(!schedule.can_skip(Some(7), events));
    schedule.finished(&ran(now, Duration::ZERO), Some(7));
    assert!(schedule.can_skip(Some(7), events));
    assert!(!schedule.can_skip(Some(8), events));
    assert!(!schedule.can_skip(None, events));
    for _ in 0..1000 {
        schedule.skipped(&ran(now, Duration::ZERO), Some(7));
        assert_eq!(schedule.next(), Some(now + MINUTES));
        assert!(schedule.can_skip(Some(7), events));
    }
    schedule.request(now);
    assert_eq!(schedule.next(), Some(now));
    assert_eq!(schedule.trigger(), ComparisonTrigger::FollowUp);
    assert!(!schedule.can_skip(Some(7), events));
}

/// A program with another lock does not open the one that is watched.
#[test]
fn a_quiet_lock_stretches_the_interval_of_verifications_and_cancels_none() {
    let now = instant();
    let mut schedule = VerificationSchedule::new(Some(MINUTES), now);
    for _ in 0..3 {
        schedule.finished(&ran(now, Duration::ZERO), Some(7));
        let mut skips = 0;
        while skips < 1000 && schedule.can_skip(Some(7), ChangeDetection::BySize) {
            schedule.skipped(&ran(now, Duration::ZERO), Some(7));
            skips += 1;
        }
        assert_eq!(skips, MOST_SKIPS_ON_LEGACY);
    }
}

#[test]
fn without_an_interval_rules_are_compared_only_after_failures() {
    let now = instant();
    let mut schedule = VerificationSchedule::new(None, now);
    assert_eq!(schedule.next(), None);
    schedule.request(now);
    assert_eq!(schedule.next(), Some(now));
    schedule.finished(&ran(now, Duration::from_secs(1)), None);
    assert_eq!(schedule.next(), None);
    let mut dry_run = VerificationSchedule::disabled(now);
    dry_run.request(now);
    assert_eq!(dry_run.next(), None);
}
