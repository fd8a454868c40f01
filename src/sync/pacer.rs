//! Decides when the next sync starts, as a function of requests and of the times and CPU cost of
//! earlier syncs.
//!
//! The gap after a sync depends on a CPU budget. A sync that took CPU time `c` owes idle time:
//! `c / budget` less its own duration. Credit from earlier idle time is subtracted, so that an
//! isolated change and a short burst never wait; the rest is the gap. For example, with a budget of
//! 50 %, a sync that took 100 ms and as much CPU time owes 200 - 100 = 100 ms. With a credit of
//! 30 ms, the gap is 70 ms.
//!
//! Upstream: pkg/proxy/runner/bounded_frequency_runner.go (v1.37)
//!
//! Differs from upstream: the first retry comes after a second, and the delay doubles up to the
//! sync period. kube-proxy retries after a whole sync period. Most failures are short, and until a
//! retry clients are sent to dead endpoints.

use std::time::{Duration, Instant};

use crate::net::DoublingDelay;
use crate::rules::Backend;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// `--iptables-min-sync-period`.
    Fixed(Duration),
    /// Gap by this CPU budget; `None`: by the default of the backend. An idle daemon syncs at once,
    /// and a busy one takes bounded CPU time.
    Budget(Option<CpuBudget>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacerOptions {
    pub gap: Gap,
    /// Maximum retry delay: `--iptables-sync-period`.
    pub longest_retry: Duration,
    /// Maximum time without a sync.
    pub longest_idle: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncResult {
    /// All changes were applied, except those of Services in quarantine.
    Applied,
    /// The sync failed and is retried.
    Failed,
}

/// Schedule of the syncs of one IP family.
#[derive(Debug)]
pub(crate) struct Pacer {
    options: PacerOptions,
    account: CpuAccount,
    /// Time of the oldest request since the last sync.
    requested: Option<Instant>,
    /// End of the gap after the last sync.
    not_before: Option<Instant>,
    /// Time of the next sync without a request or a retry.
    idle_until: Option<Instant>,
    retry: Option<Instant>,
    failures: u32,
}

impl Pacer {
    pub(crate) fn new(options: PacerOptions, backend: Backend) -> Self {
        let default = CpuBudget::default_for(backend);
        let budget = match options.gap {
            Gap::Budget(budget) => budget.unwrap_or(default),
            Gap::Fixed(_) => default,
        };
        Self {
            options,
            account: CpuAccount::new(budget),
            requested: None,
            not_before: None,
            idle_until: None,
            retry: None,
            failures: 0,
        }
    }

    /// Requests a sync. Later requests are served by the same sync.
    pub(crate) fn request(&mut self, now: Instant) {
        self.requested.get_or_insert(now);
    }

    /// Notes the end of a sync, which served all earlier requests.
    pub(crate) fn finished(&mut self, ran: &RunTimes, result: SyncResult) {
        let ended = ran.ended;
        let gap = match self.options.gap {
            Gap::Fixed(gap) => gap,
            Gap::Budget(_) => self.account.charge(ran),
        };
        // A failed restore is often cheap: by its cost alone, the next change would start a sync
        // without a gap, before the retry is due.
        let gap = match result {
            SyncResult::Applied => gap,
            SyncResult::Failed => {
                gap.max(DoublingDelay::of_retries(self.options.longest_retry).after(1))
            }
        };
        self.requested = None;
        self.not_before = ended.checked_add(gap);
        self.idle_until = ended.checked_add(self.options.longest_idle);
        match result {
            SyncResult::Applied => {
                self.failures = 0;
                self.retry = None;
            }
            SyncResult::Failed => {
                self.failures = self.failures.saturating_add(1);
                let delay = DoublingDelay::of_retries(self.options.longest_retry);
                let wait = delay.after(self.failures);
                self.retry = ended.checked_add(wait);
            }
        }
    }

    /// Returns the number of syncs in a row that failed.
    pub(crate) const fn failures(&self) -> u32 {
        self.failures
    }

    /// Reports whether a request or a retry is pending.
    pub(crate) const fn awaits_sync(&self) -> bool {
        self.requested.is_some() || self.retry.is_some()
    }

    /// Returns the time of the next sync: that of the first of the request, the retry and the end
    /// of the longest idle time, but not before the end of the gap. `None` before the first
    /// request.
    pub(crate) fn next_due(&self) -> Option<Instant> {
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

/// Maximum gap by the CPU budget: kube-proxy's default `minSyncPeriod`, its gap after every sync.
/// With a longer gap, changes would be programmed later than by kube-proxy.
const LONGEST_GAP: Duration = Duration::from_secs(1);

/// First bound of the credit: the time over which the budget spreads this much CPU time, such as
/// 2 s at 50 %. It covers a burst, but not a minute of churn after an idle hour.
const MOST_CREDIT: Duration = Duration::from_secs(1);

/// Second bound of the credit, as a multiple of [`LONGEST_GAP`]. On legacy, where nearly every sync
/// owes the maximum gap, a burst has this many syncs without a gap.
const MOST_CREDIT_IN_GAPS: u32 = 5;

/// Share of one CPU that syncs should take under continuous change, in percent. They take more if
/// that would need a gap of more than [`LONGEST_GAP`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuBudget(u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunTimes {
    pub started: Instant,
    pub ended: Instant,
    /// CPU time of the family's thread and of its child processes.
    pub cpu: Duration,
}

/// CPU account of one IP family: the time that its syncs owe, and its credit.
#[derive(Debug)]
pub(super) struct CpuAccount {
    budget: CpuBudget,
    /// Time that is subtracted from what the next syncs owe.
    credit: Duration,
    /// End of the gap after the last sync. Idle time after it adds to the credit.
    counted_until: Option<Instant>,
}

impl CpuBudget {
    /// Returns a budget of 1 to 100 percent; other numbers are clamped.
    pub const fn percent(percent: u8) -> Self {
        Self(match percent {
            0 => 1,
            1..=100 => percent,
            _ => 100,
        })
    }

    /// Returns the default budget. On nft the cost of a sync depends on the change, and half a CPU
    /// keeps latency short. On legacy every sync rewrites the whole table: with one percent nearly
    /// every sync owes the maximum gap, so that continuous churn costs no more than with
    /// kube-proxy.
    pub const fn default_for(backend: Backend) -> Self {
        match backend {
            Backend::Nft => Self(50),
            Backend::Legacy => Self(1),
        }
    }

    /// Returns the time over which the budget allows this CPU time.
    fn time_for(self, cpu: Duration) -> Duration {
        cpu.saturating_mul(100) / u32::from(self.0)
    }
}

impl CpuAccount {
    pub(super) fn new(budget: CpuBudget) -> Self {
        Self {
            budget,
            credit: Self::most_credit(budget),
            counted_until: None,
        }
    }

    /// Charges a sync; returns the gap after it.
    pub(super) fn charge(&mut self, ran: &RunTimes) -> Duration {
        if let Some(counted) = self.counted_until {
            let quiet = ran.started.saturating_duration_since(counted);
            self.credit = (self.credit + quiet).min(Self::most_credit(self.budget));
        }
        let took = ran.ended.saturating_duration_since(ran.started);
        let owed = self.budget.time_for(ran.cpu).saturating_sub(took);
        let owed = owed.min(LONGEST_GAP);
        let gap = owed.saturating_sub(self.credit);
        self.credit = self.credit.saturating_sub(owed);
        self.counted_until = ran.ended.checked_add(gap);
        gap
    }

    fn most_credit(budget: CpuBudget) -> Duration {
        (LONGEST_GAP * MOST_CREDIT_IN_GAPS).min(budget.time_for(MOST_CREDIT))
    }
}

#[cfg(test)]
#[path = "tests/budget.rs"]
mod budget_tests;

#[cfg(test)]
#[path = "tests/pacer.rs"]
mod tests;
