//! Decides when the next sync of an IP family starts, and how much it writes, from requests, found
//! differences, and the results, times and CPU cost of earlier syncs.
//!
//! # Gap between syncs
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
//!
//! # Scope
//!
//! Each full sync has one [`FullReason`], which logs and metrics name: full syncs are slow, and
//! should be rare.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::net::DoublingDelay;
use crate::render::{Counter, Options};
use crate::rules::{Backend, Table};

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

/// Scope of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All chains.
    Full(FullReason),
    /// Chains that differ from those found in the kernel, until the first sync that is applied. If
    /// the rules there cannot be adopted, the sync is [full](Scope::Full).
    Adoption,
    /// Chains whose rendered rules differ from the applied state, and fixed chains and jumps to
    /// repair.
    Partial,
}

impl Scope {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full(_) => "full",
            Self::Adoption => "adoption",
            Self::Partial => "partial",
        }
    }
}

enum_of_words! {
    all
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FullReason {
        /// No restore or adoption has succeeded; the rules in the kernel are adopted, if they can
        /// be.
        First = "first",
        /// A partial restore or an adoption failed, or the state of the kernel is unknown after a
        /// failure.
        Failed = "restore_failed",
        /// Another program flushed kube-proxy chains, or changed so many that they are not repaired
        /// one by one. Both have the same value in metrics and logs.
        Flushed = "flushed",
        /// The zone of this node changed, and with it the meaning of all hints.
        ZoneChanged = "zone_changed",
        /// Addresses or Pod networks of this node changed, which all Services depend on.
        NodeChanged = "node_changed",
        /// The interval of periodic full syncs is over.
        Periodic = "periodic",
    }
}

/// Minimum interval of periodic full syncs as a multiple of the duration of one: most of them
/// change nothing, and changes of the cluster wait until one ends. On nft a full sync of 50,000
/// Services takes about 65 s, so the interval is 18 hours; with 10,000 Services it is 73 minutes.
///
/// Differs from upstream: kube-proxy makes none in clusters of more than 1,000 endpoints.
const FULL_SYNC_INTERVAL_FACTOR: u32 = 1000;

/// Maximum of the interval by [`FULL_SYNC_INTERVAL_FACTOR`]: a single sync may be slow because of
/// load on the node.
const LONGEST_FULL_SYNC_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// Delay of the next periodic full sync after one that could not read the rules in the kernel, or
/// whose restore failed. Syncs are partial meanwhile.
const PERIODIC_RETRY_DELAY: Duration = Duration::from_secs(300);

/// Results of earlier syncs that the decision depends on.
#[derive(Debug, Default)]
pub(crate) struct SyncHistory {
    /// Time of the last full restore or adoption that succeeded, or of the search that first wrote
    /// what differed from the rules in the kernel; `None` before the first one.
    pub last_full: Option<Instant>,
    /// Duration of the last full restore that succeeded, without adoptions.
    pub full_took: Duration,
    /// Earliest time of the next periodic full sync, after one that failed.
    pub postponed_until: Option<Instant>,
    /// Render options of the last sync that succeeded, also of one that left some Services
    /// unresolved. They stay while the state of the kernel is unknown, unlike
    /// [`Syncer::applied_options`](super::Syncer::applied_options).
    pub last_options: Option<Options>,
}

impl SyncHistory {
    /// Reports whether a full restore or an adoption ever succeeded, or a search wrote what
    /// differed, so that Services have a last applied state.
    pub(crate) const fn has_applied(&self) -> bool {
        self.last_full.is_some()
    }

    /// Returns the nfacct counters of the last sync that succeeded, none before one; partial syncs
    /// use them: only full syncs and adoptions create counters.
    pub(crate) fn counters(&self) -> BTreeSet<Counter> {
        let options = self.last_options.as_ref();
        options.map_or_else(BTreeSet::new, |options| options.counters.clone())
    }

    /// Returns the scope of the next sync with `options` while the kernel is known; `every` is the
    /// interval of periodic full syncs.
    pub(crate) fn scope(&self, options: &Options, every: Duration, now: Instant) -> Scope {
        match self.rerender_reason(options) {
            Some(RerenderReason::Topology) => return Scope::Full(FullReason::ZoneChanged),
            Some(_) => return Scope::Full(FullReason::NodeChanged),
            None => {}
        }
        let by_duration = self.full_took.saturating_mul(FULL_SYNC_INTERVAL_FACTOR);
        let every = every.max(by_duration.min(LONGEST_FULL_SYNC_INTERVAL));
        let is_postponed = self.postponed_until.is_some_and(|until| now < until);
        let is_over = |last_full| now.saturating_duration_since(last_full) >= every;
        if !is_postponed && self.last_full.is_some_and(is_over) {
            return Scope::Full(FullReason::Periodic);
        }
        Scope::Partial
    }

    /// Notes that a full sync or an adoption was applied.
    pub(crate) fn succeeded(&mut self, now: Instant) {
        self.last_full = Some(now);
        self.postponed_until = None;
    }

    /// Postpones the next periodic full sync. Only for a failure after which the applied state
    /// still describes the kernel.
    pub(crate) fn postpone(&mut self, now: Instant) {
        self.postponed_until = Some(now + PERIODIC_RETRY_DELAY);
    }

    /// Returns the reason to rewrite all rules for `options`, if they differ from the last applied
    /// sync in something that all rules depend on.
    pub(crate) fn rerender_reason(&self, options: &Options) -> Option<RerenderReason> {
        RerenderReason::between(self.last_options.as_ref()?, options)
    }
}

enum_of_words! {
    /// Change of an input for which the rules of all Services have to be rendered again.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum RerenderReason {
        /// The topology of the node changed, and with it the meaning of hints.
        Topology = "zone changed",
        /// The match for local Pod traffic changed.
        LocalTraffic = "match for local pod traffic changed",
        /// The address of the node changed.
        NodeAddress = "node address changed",
        /// Another option changed that shapes the rules of all Services.
        Options = "options changed",
    }
}

impl RerenderReason {
    /// Returns the reason for which rules rendered with `before` are wrong with `after`; `None` if
    /// they are right. The addresses of NodePorts do not count: each has one rule, a jump to
    /// `KUBE-NODEPORTS`, and every partial payload writes changes of these jumps.
    pub(crate) fn between(before: &Options, after: &Options) -> Option<Self> {
        if before.local_traffic != after.local_traffic {
            return Some(Self::LocalTraffic);
        }
        if before.node_ip != after.node_ip {
            return Some(Self::NodeAddress);
        }
        let alike = Options {
            node_port_addresses: after.node_port_addresses.clone(),
            topology: after.topology.clone(),
            ..before.clone()
        };
        if alike != *after {
            return Some(Self::Options);
        }
        (before.topology != after.topology).then_some(Self::Topology)
    }
}

/// Number of repairs in a row without delay: an administrator may edit rules a few times.
const REPAIRS_WITHOUT_DELAY: u32 = 3;

/// Delay of the repairs after [`REPAIRS_WITHOUT_DELAY`].
const REPAIR_DELAY: DoublingDelay = DoublingDelay {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(60),
};

/// Time without changes after which a repaired chain is forgotten, counted from its repair, in
/// addition to the delay that the repair had.
const FORGET_AFTER: Duration = Duration::from_secs(2);

/// Maximum number of remembered chains; further ones are repaired without delay. That many changed
/// chains within a minute mean a flush, not two programs that change single chains in turn.
const MOST_CHAINS: usize = 1000;

/// Table and name under which repairs are counted. The name is that of a chain (for a jump, the
/// chain that holds it), or [`WHOLE_TABLE`].
pub(super) type RepairKey = (Table, Box<str>);

/// Name in a [`RepairKey`] for changed chains of a table that are not known by name.
pub(super) const WHOLE_TABLE: &str = "*";

/// Progress of the repair of the differences that comparisons found.
#[derive(Debug, Clone, Copy, Default)]
enum RepairState {
    /// No difference was found since the last reported repair.
    #[default]
    Idle,
    /// A difference awaits its repair.
    Pending {
        /// Start of the comparison that found the oldest difference.
        since: Instant,
    },
    /// A sync repaired all differences that were found so far. The repair is not reported yet.
    Done {
        /// Start of the comparison that found the oldest difference.
        since: Instant,
        /// End of the sync.
        repaired_at: Instant,
    },
}

/// Repairs of the differences that comparisons found, with the recent ones of each chain or whole
/// table: two programs must not undo each other's work without a pause. Changed or missing rules
/// make Services unreachable, so the sync that repairs them waits a minute at most. A sync for
/// another reason repairs them earlier.
#[derive(Debug, Default)]
pub(super) struct RepairSchedule {
    recent: BTreeMap<RepairKey, Repairs>,
    /// Chains and tables that differ and are not repaired yet.
    awaiting: BTreeSet<RepairKey>,
    /// Time of the delayed repair of rules that another program keeps changing.
    pub(super) due: Option<Instant>,
    state: RepairState,
}

impl RepairSchedule {
    /// Notes that a comparison, which began at `since`, found differences, and counts a repair of
    /// these chains, except of those that already await one. Returns the delay of the repair: after
    /// it, the repair is [due](Self::due); without delay, the caller requests it.
    pub(super) fn plan(
        &mut self,
        found: &BTreeSet<RepairKey>,
        since: Instant,
        now: Instant,
    ) -> Duration {
        let new = found.difference(&self.awaiting);
        let new: Vec<RepairKey> = new.cloned().collect();
        self.awaiting.extend(new.iter().cloned());
        let has_new = !new.is_empty();
        let delay = self.count(new, now);
        let since = match self.state {
            RepairState::Idle => since,
            RepairState::Pending { since } | RepairState::Done { since, .. } => since,
        };
        self.state = RepairState::Pending { since };
        let delay = match self.due {
            Some(due) if !has_new => due.saturating_duration_since(now),
            _ => delay,
        };
        let due = now + delay;
        if !delay.is_zero() && self.due.is_none_or(|other| due < other) {
            self.due = Some(due);
        }
        delay
    }

    /// Notes that a sync repaired all differences that were found so far. Returns whether there
    /// were any.
    pub(super) fn repaired(&mut self, now: Instant) -> bool {
        self.due = None;
        self.awaiting.clear();
        let RepairState::Pending { since } = self.state else {
            return false;
        };
        self.state = RepairState::Done {
            since,
            repaired_at: now,
        };
        true
    }

    /// Returns the time that the repair took, once.
    pub(super) fn take_time(&mut self) -> Option<Duration> {
        let RepairState::Done { since, repaired_at } = self.state else {
            return None;
        };
        self.state = RepairState::Idle;
        Some(repaired_at.saturating_duration_since(since))
    }

    /// Counts a repair of these chains, and returns its delay: the shortest of theirs, because a
    /// chain that is not contested must not wait for others. The sync repairs all of them.
    fn count(&mut self, chains: impl IntoIterator<Item = RepairKey>, now: Instant) -> Duration {
        self.recent.retain(|_, repairs| now < repairs.forget_at);
        let mut shortest = None;
        for chain in chains {
            let known = self.recent.get(&chain);
            if known.is_none() && self.recent.len() >= MOST_CHAINS {
                shortest = Some(Duration::ZERO);
                continue;
            }
            let count = known.map_or(0, |repairs| repairs.count).saturating_add(1);
            let wait = match count.saturating_sub(REPAIRS_WITHOUT_DELAY) {
                0 => Duration::ZERO,
                delayed => REPAIR_DELAY.after(delayed),
            };
            let repair_at = now + wait;
            let forget_at = repair_at + wait + FORGET_AFTER;
            self.recent.insert(chain, Repairs { count, forget_at });
            shortest = Some(shortest.map_or(wait, |other: Duration| other.min(wait)));
        }
        shortest.unwrap_or_default()
    }

    /// Returns the chains whose next repair would be delayed. Unlike [`Self::delayed`], includes
    /// chains of which no repair was delayed so far.
    pub(super) fn contested(&self, now: Instant) -> BTreeSet<RepairKey> {
        let known = self.recent.iter();
        let contested = known.filter(|(_, repairs)| {
            now < repairs.forget_at && repairs.count >= REPAIRS_WITHOUT_DELAY
        });
        contested.map(|(chain, _)| chain.clone()).collect()
    }

    /// Returns the number of chains whose last repair was delayed, for the metric.
    pub(super) fn delayed(&self, now: Instant) -> usize {
        let is_delayed =
            |repairs: &&Repairs| now < repairs.forget_at && repairs.count > REPAIRS_WITHOUT_DELAY;
        self.recent.values().filter(is_delayed).count()
    }
}

/// Repairs of one key: a chain or a whole table.
#[derive(Debug, Clone, Copy)]
struct Repairs {
    /// Number of repairs in a row.
    count: u32,
    /// Until then, another change counts as a repetition.
    forget_at: Instant,
}

#[cfg(test)]
#[path = "tests/budget.rs"]
mod budget_tests;

#[cfg(test)]
#[path = "tests/pacer.rs"]
mod pacer_tests;

#[cfg(test)]
#[path = "tests/repairs.rs"]
mod repair_tests;
