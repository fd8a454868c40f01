//! Decides when the next sync starts, as a function of requests, syncs and their times.
//!
//! Upstream: pkg/proxy/runner/bounded_frequency_runner.go (v1.36)
//!
//! Differs from upstream: the first retry comes after a second, and the delay doubles up to the
//! sync period. kube-proxy retries after a whole sync period. Most failures are short, and until a
//! retry clients are sent to dead endpoints.

use std::time::{Duration, Instant};

use super::budget::{Account, CpuBudget, Ran};
use crate::rules::Backend;

/// First retry delay; it doubles with each failure in a row.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// Gap between two syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// `--iptables-min-sync-period`.
    Fixed(Duration),
    /// Gap by this CPU budget, or by that of the backend: an idle daemon syncs at once, a busy one
    /// takes bounded CPU time.
    Budget(Option<CpuBudget>),
}

/// Intervals of one syncer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacerOptions {
    /// Gap between two syncs.
    pub gap: Gap,
    /// Longest retry delay: `--iptables-sync-period`.
    pub longest_retry: Duration,
    /// Longest time without a sync.
    pub longest_idle: Duration,
}

/// Result of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All changes were applied.
    Applied,
    /// The sync failed and is retried.
    Failed,
}

/// Decides when to sync; never sleeps.
#[derive(Debug)]
pub struct Pacer {
    options: PacerOptions,
    account: Account,
    requested: Option<Instant>,
    not_before: Option<Instant>,
    idle_until: Option<Instant>,
    retry: Option<Instant>,
    failures: u32,
}

impl Pacer {
    /// Returns a pacer without requests.
    pub fn new(options: PacerOptions, backend: Backend) -> Self {
        let default = CpuBudget::default_for(backend);
        let budget = match options.gap {
            Gap::Budget(budget) => budget.unwrap_or(default),
            Gap::Fixed(_) => default,
        };
        Self {
            options,
            account: Account::new(budget),
            requested: None,
            not_before: None,
            idle_until: None,
            retry: None,
            failures: 0,
        }
    }

    /// Requests a sync. Later requests are served with the first one.
    pub fn request(&mut self, now: Instant) {
        self.requested.get_or_insert(now);
    }

    /// Notes the end of a sync, which served all requests until then.
    pub fn finished(&mut self, ran: &Ran, end: End) {
        let ended = ran.ended;
        let gap = match self.options.gap {
            Gap::Fixed(gap) => gap,
            Gap::Budget(_) => self.account.charge(ran),
        };
        // A restore that fails often fails fast, so its cost bounds nothing.
        let gap = match end {
            End::Applied => gap,
            End::Failed => gap.max(FIRST_RETRY.min(self.options.longest_retry)),
        };
        self.requested = None;
        self.not_before = ended.checked_add(gap);
        self.idle_until = ended.checked_add(self.options.longest_idle);
        match end {
            End::Applied => {
                self.failures = 0;
                self.retry = None;
            }
            End::Failed => {
                self.failures = self.failures.saturating_add(1);
                let wait = retry_after(self.failures, self.options.longest_retry);
                self.retry = ended.checked_add(wait);
            }
        }
    }

    /// Reports whether a sync is due for a request or a retry.
    pub const fn awaits_sync(&self) -> bool {
        self.requested.is_some() || self.retry.is_some()
    }

    /// Returns the time of the next sync, if one is due: after the gap, for a request before a
    /// retry, and at the latest after the longest time without a sync.
    pub fn next_due(&self) -> Option<Instant> {
        let wanted = [self.requested, self.retry, self.idle_until]
            .into_iter()
            .flatten()
            .min()?;
        Some(
            self.not_before
                .map_or(wanted, |gap_ends| wanted.max(gap_ends)),
        )
    }
}

/// Returns the retry delay after this many failures in a row: it doubles each time, up to
/// `longest`.
pub(super) fn retry_after(failures: u32, longest: Duration) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    FIRST_RETRY.saturating_mul(doubled).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const S: Duration = Duration::from_secs(1);

    /// Some moment; which one does not matter.
    #[expect(
        clippy::disallowed_methods,
        reason = "an Instant cannot be made otherwise"
    )]
    fn origin() -> Instant {
        Instant::now()
    }

    fn pacer(gap: Gap) -> Pacer {
        let options = PacerOptions {
            gap,
            longest_retry: 30 * S,
            longest_idle: 3600 * S,
        };
        Pacer::new(options, Backend::Nft)
    }

    /// A sync that computed all the time.
    fn finished(pacer: &mut Pacer, started: Instant, ended: Instant, end: End) {
        let cpu = ended - started;
        pacer.finished(
            &Ran {
                started,
                ended,
                cpu,
            },
            end,
        );
    }

    #[test]
    fn nothing_is_due_before_the_first_request() {
        assert_eq!(pacer(Gap::Budget(None)).next_due(), None);
    }

    #[test]
    fn the_first_request_after_silence_is_due_at_once_and_a_burst_is_batched() {
        let t = origin();
        let mut pacer = pacer(Gap::Fixed(S));
        pacer.request(t);
        pacer.request(t + 5 * MS);
        assert_eq!(pacer.next_due(), Some(t));
        finished(&mut pacer, t, t + 20 * MS, End::Applied);
        pacer.request(t + 30 * MS);
        pacer.request(t + 40 * MS);
        assert_eq!(pacer.next_due(), Some(t + 20 * MS + S));
    }

    #[test]
    fn without_credit_the_gap_on_nft_is_as_long_as_the_sync_up_to_a_second() {
        let t = origin();
        let mut pacer = pacer(Gap::Budget(None));
        for _ in 0..2 {
            finished(&mut pacer, t, t + 60 * S, End::Applied);
        }
        finished(&mut pacer, t, t + 20 * MS, End::Applied);
        pacer.request(t + 25 * MS);
        assert_eq!(pacer.next_due(), Some(t + 40 * MS));
        finished(&mut pacer, t, t + 60 * S, End::Applied);
        pacer.request(t + 60 * S);
        assert_eq!(pacer.next_due(), Some(t + 61 * S));
        pacer.request(t + 90 * S);
        assert_eq!(pacer.next_due(), Some(t + 61 * S));
    }

    /// kube-proxy ends at its start with a `minSyncPeriod` of more than its hour.
    #[test]
    fn a_gap_may_be_longer_than_the_longest_idle_time() {
        let t = origin();
        let mut pacer = pacer(Gap::Fixed(7200 * S));
        pacer.request(t);
        assert_eq!(pacer.next_due(), Some(t));
        finished(&mut pacer, t, t, End::Applied);
        assert_eq!(pacer.next_due(), Some(t + 7200 * S));
        finished(&mut pacer, t, t, End::Failed);
        pacer.request(t + S);
        assert_eq!(pacer.next_due(), Some(t + 7200 * S));
    }

    #[test]
    fn retries_come_later_and_later_and_stop_with_a_success() {
        let t = origin();
        let mut pacer = pacer(Gap::Fixed(Duration::ZERO));
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            finished(&mut pacer, t, t, End::Failed);
            assert_eq!(pacer.next_due(), Some(t + seconds * S));
        }
        finished(&mut pacer, t, t, End::Applied);
        assert_eq!(pacer.next_due(), Some(t + 3600 * S));
        finished(&mut pacer, t, t, End::Failed);
        assert_eq!(pacer.next_due(), Some(t + S));
    }

    #[test]
    fn requests_do_not_hurry_what_fails() {
        let t = origin();
        let mut pacer = pacer(Gap::Budget(None));
        finished(&mut pacer, t, t + 5 * MS, End::Failed);
        pacer.request(t + 6 * MS);
        assert_eq!(pacer.next_due(), Some(t + 5 * MS + S));
    }

    #[test]
    fn a_request_comes_before_a_retry_but_not_before_the_gap_is_over() {
        let t = origin();
        let mut pacer = pacer(Gap::Fixed(5 * S));
        finished(&mut pacer, t, t, End::Failed);
        assert_eq!(
            pacer.next_due(),
            Some(t + 5 * S),
            "the retry waits for the gap"
        );
        finished(&mut pacer, t, t, End::Failed);
        finished(&mut pacer, t, t, End::Failed);
        finished(&mut pacer, t, t, End::Failed);
        assert_eq!(pacer.next_due(), Some(t + 8 * S));
        pacer.request(t + 6 * S);
        assert_eq!(pacer.next_due(), Some(t + 6 * S));
    }
}
