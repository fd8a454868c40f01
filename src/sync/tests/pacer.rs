//! Tests of `pacer`.

use super::*;
use crate::clock::instant;

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const S: Duration = Duration::from_secs(1);

pub(super) fn pacer_on(backend: Backend, gap: Gap) -> Pacer {
    let options = PacerOptions {
        gap,
        longest_retry: 30 * S,
        longest_idle: 3600 * S,
    };
    Pacer::new(options, backend)
}

fn pacer(gap: Gap) -> Pacer {
    pacer_on(Backend::Nft, gap)
}

/// The times of a run that takes this time and this CPU time.
pub(super) fn run(started: Instant, took: Duration, cpu: Duration) -> RunTimes {
    let ended = started + took;
    RunTimes {
        started,
        ended,
        cpu,
    }
}

/// A sync that computed all the time.
fn finished(pacer: &mut Pacer, started: Instant, ended: Instant, result: SyncResult) {
    let took = ended - started;
    pacer.finished(&run(started, took, took), result);
}

#[test]
fn without_credit_the_gap_on_nft_is_as_long_as_the_sync_up_to_a_second() {
    let t = instant();
    let mut pacer = pacer(Gap::Budget(None));
    for _ in 0..2 {
        finished(&mut pacer, t, t + 60 * S, SyncResult::Applied);
    }
    finished(&mut pacer, t, t + 20 * MS, SyncResult::Applied);
    pacer.request(t + 25 * MS);
    assert_eq!(pacer.next_due(), Some(t + 40 * MS));
    finished(&mut pacer, t, t + 60 * S, SyncResult::Applied);
    pacer.request(t + 60 * S);
    assert_eq!(pacer.next_due(), Some(t + 61 * S));
    pacer.request(t + 90 * S);
    assert_eq!(pacer.next_due(), Some(t + 61 * S));
}

/// kube-proxy exits at its start if `minSyncPeriod` is longer than one hour, the interval of
/// its full syncs.
#[test]
fn a_gap_may_be_longer_than_the_longest_idle_time() {
    let t = instant();
    let mut pacer = pacer(Gap::Fixed(7200 * S));
    pacer.request(t);
    assert_eq!(pacer.next_due(), Some(t));
    finished(&mut pacer, t, t, SyncResult::Applied);
    assert_eq!(pacer.next_due(), Some(t + 7200 * S));
    finished(&mut pacer, t, t, SyncResult::Failed);
    pacer.request(t + S);
    assert_eq!(pacer.next_due(), Some(t + 7200 * S));
}

#[test]
fn retries_come_later_and_later_and_stop_with_a_success() {
    let t = instant();
    let mut pacer = pacer(Gap::Fixed(Duration::ZERO));
    for seconds in [1, 2, 4, 8, 16, 30, 30] {
        finished(&mut pacer, t, t, SyncResult::Failed);
        assert_eq!(pacer.next_due(), Some(t + seconds * S));
    }
    finished(&mut pacer, t, t, SyncResult::Applied);
    assert_eq!(pacer.next_due(), Some(t + 3600 * S));
    finished(&mut pacer, t, t, SyncResult::Failed);
    assert_eq!(pacer.next_due(), Some(t + S));
}

#[test]
fn requests_do_not_shorten_the_first_retry_delay() {
    let t = instant();
    let mut pacer = pacer(Gap::Budget(None));
    finished(&mut pacer, t, t + 5 * MS, SyncResult::Failed);
    pacer.request(t + 6 * MS);
    assert_eq!(pacer.next_due(), Some(t + 5 * MS + S));
}

#[test]
fn a_request_comes_before_a_retry_but_not_before_the_gap_is_over() {
    let t = instant();
    let mut pacer = pacer(Gap::Fixed(5 * S));
    finished(&mut pacer, t, t, SyncResult::Failed);
    // The retry waits for the gap.
    assert_eq!(pacer.next_due(), Some(t + 5 * S));
    for _ in 0..3 {
        finished(&mut pacer, t, t, SyncResult::Failed);
    }
    assert_eq!(pacer.next_due(), Some(t + 8 * S));
    pacer.request(t + 6 * S);
    assert_eq!(pacer.next_due(), Some(t + 6 * S));
}
