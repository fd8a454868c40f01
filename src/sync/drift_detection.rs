//! State of drift detection of one IP family: the schedules of comparisons of the kernel with the
//! applied state, and the differences that wait for a repair or another reading.
//!
//! Two kinds of comparisons are periodic: the [check of guarded
//! chains](super::guarded_chain_monitor), short and frequent, and the verification of all rules.
//! Both also run after changes by other programs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::guarded_chain_monitor::GuardedChainMonitor;
use super::kernel::{ComparisonTrigger, Drift, Extent, RepairKey};
use super::pacer::RunTimes;
use crate::host::{ChangeDetection, ForeignChange, RunError};
use crate::net::DoublingDelay;

/// Delay of another read of rules that could not be read, for example while another program held
/// the xtables lock. A read of very many rules may be abandoned each time for a sync that is due.
const REREAD_DELAY: DoublingDelay = DoublingDelay {
    first: Duration::from_secs(5),
    longest: Duration::from_secs(300),
};

/// Minimum pause after a check that a change by another program triggered. A script that runs
/// `iptables` makes a change every few milliseconds.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// Minimum interval of periodic verifications as a multiple of their CPU time: these take at most
/// 0.5 % of one CPU. Verifications after failures and changes by other programs come in addition.
const INTERVAL_FACTOR: u32 = 200;

/// Pause before a change by another program triggers the next check or verification, as a multiple
/// of the duration of the last one.
const PAUSE_FACTOR: u32 = 2;

/// Maximum number of times that changes of single chains interrupt a verification. Without a limit
/// it might never end: at 10,000 Services it reads for more than a second.
const MAX_INTERRUPTIONS: u32 = 10;

/// Maximum number of verifications in a row that are skipped on legacy. There only the xtables lock
/// shows that no program has changed a rule, and a program with another lock is not noticed: with
/// the default interval, its changes are found within half an hour.
const MOST_SKIPS_ON_LEGACY: u32 = 5;

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

#[derive(Debug)]
pub(super) struct DriftDetection {
    /// Schedule and findings of the checks of guarded chains.
    pub(super) guarded_chains: GuardedChainMonitor,
    /// Differences that await their repair, and recent repairs.
    pub(super) repairs: RepairSchedule,
    pub(super) verifications: VerificationSchedule,
    /// Rules to read again, because an earlier comparison could not read them.
    pub(super) to_reread: Extent,
    pub(super) reread_at: Option<Instant>,
    /// Earliest time of the next check triggered by a change by another program: frequent changes
    /// must not take all of the task's time.
    pub(super) change_check_not_before: Option<Instant>,
    /// Change by another program that was reported during a verification and is checked next.
    pub(super) pending_change: Option<ForeignChange>,
    /// The last comparison could read all that it was about.
    pub(super) has_read_extent: bool,
    /// Number of comparisons with a failed reading since the last one that read all rules.
    failed_readings: u32,
}

impl DriftDetection {
    /// Returns the state for these intervals. Without a check interval, as in a dry run, there are
    /// neither checks nor verifications. Without a verification interval, verifications follow only
    /// failures and changes by other programs.
    pub(super) fn new(
        check_interval: Option<Duration>,
        verify_interval: Option<Duration>,
        now: Instant,
    ) -> Self {
        Self {
            guarded_chains: GuardedChainMonitor::new(check_interval, now),
            repairs: RepairSchedule::default(),
            verifications: match check_interval {
                Some(_) => VerificationSchedule::new(verify_interval, now),
                None => VerificationSchedule::disabled(now),
            },
            to_reread: Extent::default(),
            reread_at: None,
            change_check_not_before: None,
            pending_change: None,
            has_read_extent: false,
            failed_readings: 0,
        }
    }

    /// Adds rules to read again, after a [`REREAD_DELAY`] that grows with failed readings.
    pub(super) fn postpone(&mut self, extent: &Extent, now: Instant) {
        if !extent.is_empty() {
            self.to_reread.merge(extent);
            let delay = REREAD_DELAY.after(self.failed_readings);
            self.reread_at.get_or_insert(now + delay);
        }
    }

    pub(super) fn take_to_reread(&mut self) -> Extent {
        self.reread_at = None;
        std::mem::take(&mut self.to_reread)
    }

    /// Notes the end of a check that a change by another program triggered.
    pub(super) fn compared_change(&mut self, started: Instant, now: Instant) {
        let took = now.saturating_duration_since(started);
        self.change_check_not_before =
            now.checked_add(took.saturating_mul(PAUSE_FACTOR).max(SHORTEST_PAUSE));
    }

    /// Returns the time from the start of the comparison that found the oldest difference to the
    /// repair of all, once. `None` while one awaits its repair, or a verification is requested,
    /// which may find more.
    pub(super) fn take_repair_time(&mut self) -> Option<Duration> {
        if self.verifications.is_requested() {
            return None;
        }
        self.repairs.take_time()
    }

    /// Counts a comparison whose reading failed; a verification without failure resets the count.
    /// Returns the count.
    pub(super) fn count_failed_readings(
        &mut self,
        is_verification: bool,
        failure: Option<&RunError>,
    ) -> u32 {
        if failure.is_some() {
            self.failed_readings = self.failed_readings.saturating_add(1);
        } else if is_verification {
            self.failed_readings = 0;
        }
        self.failed_readings
    }

    pub(super) fn periodic(&self, detection: ChangeDetection) -> Extent {
        Extent::guarded(self.guarded_chains.periodic(detection))
    }
}

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
    /// Notes the differences that a comparison found, which began at `since`, and counts a repair
    /// of their chains, except of those that already await one. Returns the delay of the repair:
    /// after it, the repair is [due](Self::due); without delay, the caller requests it.
    pub(super) fn plan(&mut self, drift: &Drift, since: Instant, now: Instant) -> Duration {
        let new = drift.repair_keys.difference(&self.awaiting);
        let new: Vec<RepairKey> = new.cloned().collect();
        self.awaiting.extend(new.iter().cloned());
        let has_new = !new.is_empty();
        let delay = self.count(new, now);
        if drift.is_empty() {
            return Duration::ZERO;
        }
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
    fn take_time(&mut self) -> Option<Duration> {
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
    pub(super) fn delayed(&self) -> usize {
        let is_delayed = |repairs: &&Repairs| repairs.count > REPAIRS_WITHOUT_DELAY;
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

/// Schedule of verifications of one IP family.
#[derive(Debug)]
pub(super) struct VerificationSchedule {
    /// False in a dry run, which writes no rules.
    is_enabled: bool,
    /// Interval; `None`: verifications follow only failures and changes by other programs.
    every: Option<Duration>,
    /// Time of the next verification; `None`: none is scheduled.
    next: Option<Instant>,
    /// Trigger of the next verification.
    trigger: ComparisonTrigger,
    /// Generation of the ruleset at the last verification: a number that stays the same while no
    /// program changes rules. `None` if it is unknown, or if not all rules were read.
    generation: Option<u32>,
    /// Number of verifications that were skipped since the last one.
    skips: u32,
    /// Number of interruptions of the current verification.
    interruptions: u32,
    /// Total duration of the interrupted readings of the current verification.
    spent: Duration,
    /// Earliest time of a verification that a change by another program triggers.
    not_before: Option<Instant>,
    /// Names of the programs whose changes triggered the next verification.
    programs: BTreeSet<String>,
}

impl VerificationSchedule {
    /// Returns a schedule whose first verification is due after the interval.
    pub(super) fn new(every: Option<Duration>, now: Instant) -> Self {
        Self {
            is_enabled: true,
            every,
            next: every.and_then(|every| now.checked_add(every)),
            trigger: ComparisonTrigger::VerificationDue,
            generation: None,
            skips: 0,
            interruptions: 0,
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

    pub(super) const fn trigger(&self) -> ComparisonTrigger {
        self.trigger
    }

    /// Schedules a verification now: after a sync with a failed attempt, or after a check that
    /// found single rules or jumps of guarded chains missing.
    pub(super) fn request(&mut self, now: Instant) {
        if self.is_enabled {
            self.next = Some(now);
            self.trigger = ComparisonTrigger::FollowUp;
        }
    }

    /// Schedules a verification after another program changed chains that are not known by name: at
    /// once, or at the end of the pause after the last verification.
    pub(super) fn changed(&mut self, change: &ForeignChange, now: Instant) {
        if self.is_enabled && !self.is_requested() {
            self.next = Some(self.not_before.map_or(now, |pause| pause.max(now)));
            self.trigger = ComparisonTrigger::Change(change.source);
        }
        self.programs.extend(change.programs.iter().cloned());
    }

    /// Reports whether a verification is scheduled for another reason than its interval.
    pub(super) fn is_requested(&self) -> bool {
        self.trigger != ComparisonTrigger::VerificationDue && self.next.is_some()
    }

    /// Reports whether the verification can be skipped: only its interval triggered it, and the
    /// generation of the ruleset is that of the last verification. On legacy that holds for a
    /// limited number of verifications.
    pub(super) fn can_skip(&self, generation: Option<u32>, detection: ChangeDetection) -> bool {
        let is_certain = detection != ChangeDetection::BySize;
        self.trigger == ComparisonTrigger::VerificationDue
            && generation.is_some()
            && self.generation == generation
            && (is_certain || self.skips < MOST_SKIPS_ON_LEGACY)
    }

    /// Notes that a verification was skipped, and schedules the next one.
    pub(super) fn skipped(&mut self, ran: &RunTimes, generation: Option<u32>) {
        let skips = self.skips.saturating_add(1);
        self.finished(ran, generation);
        self.skips = skips;
    }

    /// Returns the names of the programs whose changes triggered the next verification, if known.
    pub(super) fn programs(&self) -> BTreeSet<String> {
        self.programs.clone()
    }

    /// Reports whether changes of single chains may still interrupt the current verification.
    pub(super) const fn may_be_interrupted(&self) -> bool {
        self.interruptions < MAX_INTERRUPTIONS
    }

    /// Notes that a verification was interrupted after this time; it is restarted at once.
    pub(super) fn interrupted(&mut self, took: Duration, now: Instant) {
        self.interruptions = self.interruptions.saturating_add(1);
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
        self.not_before = now.checked_add(took.saturating_mul(PAUSE_FACTOR));
        let cpu = cpu.saturating_add(std::mem::take(&mut self.spent));
        self.interruptions = 0;
        self.programs.clear();
        let wait = self
            .every
            .map(|every| every.max(cpu.saturating_mul(INTERVAL_FACTOR)));
        self.next = wait.and_then(|wait| now.checked_add(wait));
        self.trigger = ComparisonTrigger::VerificationDue;
        self.generation = generation;
        self.skips = 0;
    }
}

#[cfg(test)]
#[path = "tests/schedule.rs"]
mod schedule_tests;

#[cfg(test)]
#[path = "tests/drift_detection.rs"]
mod tests;
