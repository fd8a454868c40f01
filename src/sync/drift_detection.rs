//! Drift detection of one IP family: when the kernel is compared with the applied state, and the
//! checks of the *guarded* chains, which are fixed chains, canaries, and built-in chains with jumps
//! to kube-proxy chains.
//!
//! Two kinds of comparisons are periodic: the check of guarded chains, short and frequent, and the
//! verification of all rules. Both also run after changes by other programs.
//!
//! Rules disappear when a firewall is reloaded, or when an administrator flushes or edits a table.
//! A table counts as flushed only if the output of the iptables binary shows it: an unprintable
//! rule or a failure of the binary does not cause a rewrite of all rules.
//!
//! Upstream: pkg/util/iptables/iptables.go, `Monitor` (v1.37)
//!
//! Differs from upstream: one flushed table is enough for a restore at once. kube-proxy waits up to
//! five seconds for all tables to be flushed. Tables that are flushed later are found by change
//! detection, or by two checks soon after the periodic check that found the first flush.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::kernel::{ComparisonTrigger, DueRewrite, Extent, GuardedChainFindings, Reading};
use super::schedule::{RepairSchedule, RunTimes};
use crate::host::{ChangeDetection, ForeignChange, Iptables, ListedChains, ProgramExit, RunError};
use crate::net::DoublingDelay;
use crate::render::{GuardedChainState, Options, guarded_chains};
use crate::rules::Table;

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

/// Tables to check, the cheapest first.
pub(super) const TABLES: [Table; 3] = [Table::Mangle, Table::Filter, Table::Nat];

/// Minimum interval of checks, for a very short sync period: a check starts three processes.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// Intervals of the checks after a periodic check that found a loss of rules: a reload of a
/// firewall goes from table to table, and may remove what was restored between two of them. A loss
/// that these checks find is restored, but is not followed by early checks again: a program that
/// never stops flushing causes three restores in each sync period, not one a second.
///
/// A loss that was found otherwise is not followed by early checks: change detection usually
/// reports the next one as well, and [`RepairSchedule`]
/// delays frequent restores.
const INTERVALS_AFTER_LOSS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Maximum wait between two rewrites of a chain with third-party rules: the interval of full syncs
/// of kube-proxy, which remove such rules in clusters of up to 1,000 endpoints.
const LONGEST_REWRITE_WAIT: Duration = Duration::from_secs(3600);

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

/// Checks the guarded chains of an extent.
pub(super) async fn check_guarded_chains(
    monitor: &mut GuardedChainMonitor,
    iptables: &impl Iptables,
    options: &Options,
    extent: &Extent,
    now: Instant,
) -> Reading {
    let guarded = monitor.check(iptables, options, &extent.guarded, now).await;
    let unreadable = monitor.unreadable();
    Reading {
        tables: extent.guarded.difference(unreadable).copied().collect(),
        guarded,
        ..Reading::default()
    }
}

/// Checks of the guarded chains of one IP family: their schedule, and what the last one found.
#[derive(Debug)]
pub(super) struct GuardedChainMonitor {
    /// Check interval; `None`: never.
    every: Option<Duration>,
    next: Option<Instant>,
    /// Remaining [`INTERVALS_AFTER_LOSS`].
    early_intervals: &'static [Duration],
    /// Tables that the last check could not read, or not completely: a built-in chain has an
    /// unprintable rule.
    unreadable: BTreeSet<Table>,
    /// Fixed chains that held third-party rules recently.
    rewrites: RewriteBackoff,
    /// Table that a running check reads, and the findings about the tables before it.
    running: Option<(Table, GuardedChainFindings)>,
    /// A sync ended after the last periodic check. Detection by table sizes misses a change by
    /// another program right after a restore, so the next periodic check is of all tables.
    has_synced: bool,
}

impl GuardedChainMonitor {
    pub(super) fn new(every: Option<Duration>, now: Instant) -> Self {
        let every = every.map(|every| every.max(SHORTEST_INTERVAL));
        Self {
            every,
            next: every.map(|every| now + every),
            early_intervals: &[],
            unreadable: BTreeSet::new(),
            rewrites: RewriteBackoff::default(),
            running: None,
            has_synced: false,
        }
    }

    /// Returns the time of the next check, if there is one.
    pub(super) const fn next_check(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the tables that the last check could not read completely.
    pub(super) const fn unreadable(&self) -> &BTreeSet<Table> {
        &self.unreadable
    }

    /// Notes the end of a sync, which may have made a restore.
    pub(super) fn synced(&mut self) {
        self.has_synced = true;
    }

    /// Returns the tables of the periodic check. If the node can detect changes by other programs,
    /// these are the tables that could not be read or that hold third-party rules; if not, all.
    /// Detection by table sizes counts only if no sync ended since the last periodic check.
    pub(super) fn periodic(&self, detection: ChangeDetection) -> Vec<Table> {
        let needs_all = match detection {
            ChangeDetection::Off => true,
            ChangeDetection::BySize => self.has_synced,
            ChangeDetection::ByEvents => false,
        };
        let needs_check = |table: &Table| {
            needs_all || self.unreadable.contains(table) || self.rewrites.has(*table)
        };
        TABLES.into_iter().filter(needs_check).collect()
    }

    /// Ends a check that was abandoned after this time: the table that was being checked counts as
    /// unreadable. Returns the findings about it and the tables before it; `None` if no check was
    /// running.
    pub(super) fn abandoned(&mut self, after: Duration) -> Option<GuardedChainFindings> {
        let (table, mut findings) = self.running.take()?;
        let cause = RunError::Failed {
            program: "iptables".to_owned(),
            exit: ProgramExit::TimedOut(after),
            stderr: String::new(),
        };
        self.note_readability(table, Some(cause), &mut findings);
        Some(findings)
    }

    /// Sets the time of the next check after one that ended `now`, not after its start: if iptables
    /// binaries hang for longer than the interval, checks must not follow each other without a
    /// pause.
    pub(super) fn schedule(&mut self, findings: &GuardedChainFindings, now: Instant) {
        self.has_synced = false;
        self.early_intervals = match self.early_intervals {
            [_this, rest @ ..] => rest,
            [] if findings.gone.is_some() => &INTERVALS_AFTER_LOSS,
            [] => &[],
        };
        let early = self.early_intervals.first().copied();
        self.next = self
            .every
            .map(|every| now + early.unwrap_or(every).min(every));
    }

    /// Checks the guarded chains of some tables, whose rules were written with these options.
    pub(super) async fn check(
        &mut self,
        iptables: &impl Iptables,
        options: &Options,
        tables: &BTreeSet<Table>,
        now: Instant,
    ) -> GuardedChainFindings {
        let mut findings = GuardedChainFindings::default();
        let (mut all_edited_chains, mut read_tables) = (Vec::new(), Vec::new());
        for table in TABLES.into_iter().filter(|table| tables.contains(table)) {
            self.running = Some((table, findings));
            let checked = check_table(iptables, table, options).await;
            let running = self.running.take();
            findings = running.map_or_else(Default::default, |(_, findings)| findings);
            match checked {
                Ok((state, _)) if state.is_flushed => {
                    findings.gone = Some((table, state.missing_jumps));
                    return findings;
                }
                Ok((state, unprintable)) => {
                    let of_table = |chain| (table, chain);
                    let incomplete_chains = state.incomplete_chains.into_iter().map(of_table);
                    findings.incomplete_chains.extend(incomplete_chains);
                    findings.missing_jumps.extend(state.missing_jumps);
                    all_edited_chains.extend(state.edited_chains.into_iter().map(of_table));
                    read_tables.push(table);
                    self.note_readability(table, unprintable, &mut findings);
                }
                Err(error) => self.note_readability(table, Some(error), &mut findings),
            }
        }
        let first_wait = self.every.unwrap_or(SHORTEST_INTERVAL);
        findings.due_rewrites =
            self.rewrites
                .due(&all_edited_chains, &read_tables, first_wait, now);
        findings
    }

    /// Notes whether a table could be read; adds it to the findings only if that changed.
    fn note_readability(
        &mut self,
        table: Table,
        unreadable: Option<RunError>,
        findings: &mut GuardedChainFindings,
    ) {
        match unreadable {
            Some(cause) if self.unreadable.insert(table) => {
                findings.newly_unreadable.push((table, cause));
            }
            None if self.unreadable.remove(&table) => findings.readable_again.push(table),
            _ => {}
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Rewrites {
    next: Instant,
    /// Time between the last rewrite and `next`.
    wait: Duration,
}

/// Chains that were rewritten recently because of third-party rules.
///
/// The other program may add such a rule again each time it is removed. The chain is rewritten at
/// once, then at growing intervals while the rule comes back, of an hour at most: it does little
/// harm, since the kube-proxy rules are complete. A restore that writes the chain for another
/// reason, for example a full one, removes it earlier.
#[derive(Debug, Default)]
pub(super) struct RewriteBackoff(BTreeMap<(Table, &'static str), Rewrites>);

impl RewriteBackoff {
    /// Reports whether a fixed chain of this table holds third-party rules or recently did.
    pub(super) fn has(&self, table: Table) -> bool {
        self.0.keys().any(|(of, _)| *of == table)
    }

    /// Notes the chains in which a check found third-party rules; returns those to rewrite now.
    /// `tables` are those that could be read. A chain may be rewritten again after `first_wait`,
    /// which doubles each time.
    pub(super) fn due(
        &mut self,
        found: &[(Table, &'static str)],
        tables: &[Table],
        first_wait: Duration,
        now: Instant,
    ) -> Vec<DueRewrite> {
        // A chain that was found clean after its wait is forgotten.
        self.0.retain(|chain, rewrites| {
            let (table, _) = chain;
            now < rewrites.next || found.contains(chain) || !tables.contains(table)
        });
        let mut due = Vec::new();
        for chain in found {
            let known = self.0.get(chain).copied();
            if known.is_some_and(|rewrites| now < rewrites.next) {
                continue;
            }
            let wait = known.map_or(first_wait, |rewrites| {
                (rewrites.wait * 2).min(LONGEST_REWRITE_WAIT)
            });
            let next = now + wait;
            self.0.insert(*chain, Rewrites { next, wait });
            due.push(DueRewrite {
                chain: *chain,
                wait,
                is_back: known.is_some(),
            });
        }
        due
    }
}

/// Lists the guarded chains, and queries each jump in a chain that cannot be printed. Returns their
/// state, with the error of the iptables binary at an unprintable rule in a built-in chain. A table
/// of which a guarded chain is missing is flushed: the binary lists nothing then.
///
/// # Errors
///
/// The iptables binary failed, for example because another program held the xtables lock.
async fn check_table(
    iptables: &impl Iptables,
    table: Table,
    options: &Options,
) -> Result<(GuardedChainState, Option<RunError>), RunError> {
    let Some(listing) = list(iptables, table, options).await? else {
        let state = GuardedChainState {
            is_flushed: true,
            ..GuardedChainState::default()
        };
        return Ok((state, None));
    };
    let mut state = GuardedChainState::of(table, &listing.text, &listing.truncated, options);
    for jump in std::mem::take(&mut state.unlisted_jumps) {
        if state.is_flushed {
            // All others are missing.
            state.missing_jumps.push(jump);
            continue;
        }
        match iptables.has(table, jump.from, jump.rule).await {
            // The jump counts as present: its chain has an unprintable rule.
            Ok(true) | Err(RunError::Unprintable { .. }) => {}
            Ok(false) => state.missing_jumps.push(jump),
            Err(error) => return Err(error),
        }
    }
    Ok((state, listing.unprintable))
}

/// Printable lines of the guarded chains of one table.
#[derive(Debug, Default)]
struct Listing {
    text: String,
    /// Chains with unprintable rules.
    truncated: Vec<String>,
    /// First error that concerns a built-in chain.
    unprintable: Option<RunError>,
}

/// Lists the guarded chains, and continues after each chain at which the iptables binary ends;
/// `None` if one of them does not exist.
async fn list(
    iptables: &impl Iptables,
    table: Table,
    options: &Options,
) -> Result<Option<Listing>, RunError> {
    let chains = guarded_chains(table, options);
    let mut listing = Listing::default();
    let mut rest = chains.as_slice();
    while !rest.is_empty() {
        match iptables.list(table, rest).await? {
            ListedChains::Missing => return Ok(None),
            ListedChains::Whole(text) => {
                listing.text += &text;
                break;
            }
            ListedChains::Truncated {
                printed,
                chain,
                cause,
            } => {
                listing.text += &printed;
                // If the binary names another chain than the listed ones, the first of these counts
                // as unprintable.
                let at = rest.iter().position(|listed| *listed == chain);
                let (tried, remaining) = rest.split_at(at.map_or(1, |at| at + 1));
                rest = remaining;
                let truncated = tried.last().copied().unwrap_or_default();
                if table.built_in_chains().contains(&truncated) {
                    listing.unprintable.get_or_insert(cause);
                }
                listing.truncated.push(truncated.to_owned());
            }
        }
    }
    Ok(Some(listing))
}

#[cfg(test)]
#[path = "tests/guarded_chain_monitor.rs"]
mod guarded_chain_tests;

#[cfg(test)]
#[path = "tests/verifications.rs"]
mod verification_tests;

#[cfg(test)]
#[path = "tests/drift_detection.rs"]
mod tests;
