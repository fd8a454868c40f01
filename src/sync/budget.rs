//! CPU time that syncs may take: an account that is filled while nothing runs.
//!
//! Kept separate from [`pacer`](super::pacer), which also knows retries and requests: this is only
//! about what a sync costs and how long the next one waits for it.
//!
//! The account is kept in pause time. A sync that took CPU time `c` owes `c / budget`, less the
//! time that it ran itself. Credit from earlier quiet pays for it first, so that an isolated change
//! and a short burst never wait; what is left is the pause.

use std::time::{Duration, Instant};

use crate::rules::Backend;

/// The longest pause that cost alone can ask for: kube-proxy's `minSyncPeriod`, which that waits
/// after every sync. With more, changes would be programmed later than by kube-proxy.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The most CPU time that credit buys: a burst is paid for at once, and not a minute of churn after
/// a quiet hour.
const MOST_CREDIT: Duration = Duration::from_secs(1);

/// The most pauses that credit takes the place of. On legacy, where every sync owes the longest
/// pause, these are the syncs of a burst that go out without one.
const MOST_PAUSES: u32 = 5;

/// Share of one CPU that syncs may take under lasting change, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuBudget(u8);

/// When a sync ran, and what it cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// Its start.
    pub started: Instant,
    /// Its end.
    pub ended: Instant,
    /// CPU time of the family's thread and of the programs that it ran.
    pub cpu: Duration,
}

/// The account of one family.
#[derive(Debug)]
pub(super) struct Account {
    budget: CpuBudget,
    credit: Duration,
    /// Until when quiet has been turned into credit.
    counted: Option<Instant>,
}

impl CpuBudget {
    /// From 1 to 100 percent; other numbers count as the nearer of the two.
    pub const fn percent(percent: u8) -> Self {
        Self(match percent {
            0 => 1,
            1..=100 => percent,
            _ => 100,
        })
    }

    /// The budget where none is set. On nft a sync costs what changed, and half a CPU makes latency
    /// short. On legacy it costs the whole table: with one percent nearly every sync owes the
    /// longest pause, so that lasting churn costs no more than it costs kube-proxy.
    pub const fn default_for(backend: Backend) -> Self {
        match backend {
            Backend::Nft => Self(50),
            Backend::Legacy => Self(1),
        }
    }

    /// Time in which the budget grants so much CPU time.
    fn time_for(self, cpu: Duration) -> Duration {
        cpu.saturating_mul(100) / u32::from(self.0)
    }
}

impl Account {
    /// Begins with all the credit there can be.
    pub(super) fn new(budget: CpuBudget) -> Self {
        Self {
            budget,
            credit: Self::most_credit(budget),
            counted: None,
        }
    }

    /// Charges a sync; returns the pause after it.
    pub(super) fn charge(&mut self, ran: &Ran) -> Duration {
        if let Some(counted) = self.counted {
            let quiet = ran.started.saturating_duration_since(counted);
            self.credit = (self.credit + quiet).min(Self::most_credit(self.budget));
        }
        let took = ran.ended.saturating_duration_since(ran.started);
        let owed = self.budget.time_for(ran.cpu).saturating_sub(took);
        let owed = owed.min(LONGEST_PAUSE);
        let pause = owed.saturating_sub(self.credit);
        self.credit = self.credit.saturating_sub(owed);
        self.counted = ran.ended.checked_add(pause);
        pause
    }

    fn most_credit(budget: CpuBudget) -> Duration {
        (LONGEST_PAUSE * MOST_PAUSES).min(budget.time_for(MOST_CREDIT))
    }
}

#[cfg(test)]
#[path = "tests/budget.rs"]
mod tests;
