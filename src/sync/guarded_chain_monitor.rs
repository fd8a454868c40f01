//! Schedule and findings of the checks of the guarded chains: fixed chains, canaries, and built-in
//! chains with jumps to kube-proxy chains.
//!
//! Rules disappear when a firewall is reloaded, or when an administrator flushes or edits a table.
//! A table counts as flushed only if the output of the iptables binary shows it: an unprintable
//! rule or a failure of the binary is no reason to rewrite all rules.
//!
//! Upstream: pkg/util/iptables/iptables.go, `Monitor` (v1.37)
//!
//! Differs from upstream: one flushed table is enough for a restore at once. kube-proxy waits up to
//! five seconds for all tables to be flushed. Tables that are flushed later are found by change
//! detection, or by two checks soon after the periodic check that found the first flush.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::host::{ChangeDetection, Iptables, ListedChains, ProgramExit, RunError};
use crate::render::{GuardedChainState, Options, guarded_chains};
use crate::rules::Table;
use crate::ruleset::Jump;

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
/// reports the next one as well, and [`RepairSchedule`](super::drift_detection::RepairSchedule)
/// delays frequent restores.
const INTERVALS_AFTER_LOSS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Maximum wait between two rewrites of a chain with third-party rules: the interval of full syncs
/// of kube-proxy, which remove such rules in clusters of up to 1,000 endpoints.
const LONGEST_REWRITE_WAIT: Duration = Duration::from_secs(3600);

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

/// Findings of one check of the guarded chains.
#[derive(Debug, Default)]
pub(super) struct GuardedChainFindings {
    /// Tables that could not be read; each is reported once until it is readable again.
    pub(super) newly_unreadable: Vec<(Table, RunError)>,
    pub(super) readable_again: Vec<Table>,
    /// Table that lacks a guarded chain or all jumps, and the jumps that it lacks if its chains are
    /// there, as after `iptables -F`. Tables after it were not checked.
    pub(super) gone: Option<(Table, Vec<&'static Jump>)>,
    /// Fixed chains with third-party rules that are due to be rewritten.
    pub(super) due_rewrites: Vec<DueRewrite>,
    /// Fixed chains that lack some of their rules.
    pub(super) incomplete_chains: Vec<(Table, &'static str)>,
    pub(super) missing_jumps: Vec<&'static Jump>,
}

impl GuardedChainFindings {
    /// Reports whether single rules or jumps are missing: rules of Services may be missing as well.
    pub(super) fn is_incomplete(&self) -> bool {
        !self.incomplete_chains.is_empty() || !self.missing_jumps.is_empty()
    }
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DueRewrite {
    pub(super) chain: (Table, &'static str),
    /// Minimum time until the next rewrite.
    pub(super) wait: Duration,
    /// The chain was rewritten before, and third-party rules are back.
    pub(super) is_back: bool,
}

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
mod tests;
