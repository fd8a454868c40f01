//! Periodic checks of the fixed chains and jumps, and rewrites of chains with third-party rules.
//!
//! Rules disappear when a firewall is reloaded, or when an administrator flushes or edits a table.
//! A table counts as flushed only if a program reports it: unprintable rules, and a program that
//! fails, are no reason to rewrite all rules.
//!
//! Upstream: pkg/util/iptables/iptables.go, `Monitor` (v1.36)
//!
//! Differs from upstream: one table that lost rules is enough for a restore at once, instead of a
//! wait of up to five seconds for all of them to be flushed. A flush that is still going on is
//! caught by two checks soon after.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::kernel_state::{TableCheck, TableLoss, check_table};
use super::repair_backoff::{Edited, FixedChain, RewriteBackoff};
use crate::host::{ChangeDetection, Iptables, ProgramExit, RunError};
use crate::render::{Jump, Options};
use crate::rules::Table;

/// Tables to check, the cheapest first.
pub(super) const TABLES: [Table; 3] = [Table::Mangle, Table::Filter, Table::Nat];

/// Shortest interval between checks, whatever the sync period: a check starts three processes.
const SHORTEST: Duration = Duration::from_millis(100);

/// Intervals of the checks after a loss: a reload of a firewall goes from table to table, and
/// removes what was restored between two of them. A loss found by these checks is restored, but
/// does not restart them: a program that never stops flushing causes three restores in each
/// period, not one a second.
const SOON: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Schedule and state of the checks of one family.
#[derive(Debug)]
pub(super) struct GuardedChainCheck {
    /// Check interval; `None`: never.
    every: Option<Duration>,
    next: Option<Instant>,
    /// Remaining intervals of the checks after a loss.
    soon: &'static [Duration],
    /// Tables that the last check could not read.
    unreadable: BTreeSet<Table>,
    rewrites: RewriteBackoff,
    /// Table that is being checked.
    current: Option<Table>,
    /// A restore by this process ended after the last check.
    has_restored: bool,
}

/// Findings of a check of fixed chains and jumps.
#[derive(Debug, Default)]
pub(super) struct CheckResult {
    /// Tables that could not be read; each is reported once until it is readable again.
    pub(super) newly_unreadable: Vec<(Table, RunError)>,
    /// Tables that are readable again.
    pub(super) readable_again: Vec<Table>,
    /// Table that lost its kube-proxy rules. Tables after it were not checked.
    pub(super) gone: Option<(Table, TableLoss)>,
    /// Fixed chains with third-party rules that are due to be rewritten.
    pub(super) edited: Vec<Edited>,
    /// Fixed chains that lack some of their rules.
    pub(super) incomplete: Vec<FixedChain>,
    /// Missing jumps from built-in chains.
    pub(super) missing: Vec<&'static Jump>,
}

impl CheckResult {
    /// Reports whether single rules are missing: rules of Services may be missing as well.
    pub(super) fn is_incomplete(&self) -> bool {
        !self.incomplete.is_empty() || !self.missing.is_empty()
    }
}

impl GuardedChainCheck {
    /// Returns a schedule with this interval.
    pub(super) fn new(every: Option<Duration>, now: Instant) -> Self {
        let every = every.map(|every| every.max(SHORTEST));
        Self {
            every,
            next: every.map(|every| now + every),
            soon: &[],
            unreadable: BTreeSet::new(),
            rewrites: RewriteBackoff::default(),
            current: None,
            has_restored: false,
        }
    }

    /// Returns the time of the next check, if there is one.
    pub(super) const fn next_check(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the tables that the last check could not read.
    pub(super) const fn unreadable(&self) -> &BTreeSet<Table> {
        &self.unreadable
    }

    /// Checks some tables for the rules that were written with these options. Checks nothing for
    /// `None`: the state of the kernel is unknown.
    pub(super) async fn check(
        &mut self,
        iptables: &impl Iptables,
        written: Option<&Options>,
        tables: &[Table],
        now: Instant,
    ) -> CheckResult {
        match written {
            Some(options) => self.check_tables(iptables, options, tables, now).await,
            None => CheckResult::default(),
        }
    }

    /// Notes that a restore by this process ended.
    pub(super) fn restored(&mut self) {
        self.has_restored = true;
    }

    /// Returns the tables to check in each period: all of them, unless the kernel reports changes.
    /// Then only tables that could not be read or hold third-party rules need a check.
    pub(super) fn periodic(&self, detection: ChangeDetection) -> Vec<Table> {
        let is_unknown = match detection {
            ChangeDetection::Off => true,
            ChangeDetection::BySize => self.has_restored,
            ChangeDetection::ByEvents => false,
        };
        let needs_check = |table: &Table| {
            is_unknown || self.unreadable.contains(table) || self.rewrites.has(*table)
        };
        TABLES.into_iter().filter(needs_check).collect()
    }

    /// Returns the findings of a check that was abandoned after this time: the table that was
    /// being checked counts as unreadable.
    pub(super) fn abandoned(&mut self, after: Duration) -> CheckResult {
        let mut result = CheckResult::default();
        if let Some(table) = self.current {
            let cause = RunError::Failed {
                program: "iptables".to_owned(),
                exit: ProgramExit::TimedOut(after),
                stderr: String::new(),
            };
            self.read(table, Some(cause), &mut result);
        }
        result
    }

    /// Sets the time of the next check after one that ended now: if programs hang for longer than
    /// the interval, checks must not follow each other without a pause.
    pub(super) fn schedule(&mut self, result: &CheckResult, now: Instant) {
        self.has_restored = false;
        self.soon = match self.soon {
            [_this, rest @ ..] => rest,
            [] if result.gone.is_some() => &SOON,
            [] => &[],
        };
        let soon = self.soon.first().copied();
        self.next = self
            .every
            .map(|every| now + soon.unwrap_or(every).min(every));
    }

    async fn check_tables(
        &mut self,
        iptables: &impl Iptables,
        options: &Options,
        tables: &[Table],
        now: Instant,
    ) -> CheckResult {
        let mut result = CheckResult::default();
        let mut edited_now = Vec::new();
        for table in TABLES.into_iter().filter(|table| tables.contains(table)) {
            self.current = Some(table);
            match check_table(iptables, table, options).await {
                Ok(TableCheck::Gone(loss)) => {
                    result.gone = Some((table, loss));
                    self.current = None;
                    return result;
                }
                Ok(TableCheck::Present {
                    edited,
                    incomplete,
                    missing,
                    unprintable,
                }) => {
                    let incomplete = incomplete.into_iter().map(|chain| (table, chain));
                    result.incomplete.extend(incomplete);
                    result.missing.extend(missing);
                    edited_now.extend(edited.into_iter().map(|chain| (table, chain)));
                    self.read(table, unprintable, &mut result);
                }
                Err(error) => self.read(table, Some(error), &mut result),
            }
        }
        self.current = None;
        let first = self.every.unwrap_or(SHORTEST);
        result.edited = self.rewrites.due(&edited_now, tables, first, now);
        result
    }

    /// Notes whether a table could be read; adds it to the findings only if that changed.
    fn read(&mut self, table: Table, unreadable: Option<RunError>, result: &mut CheckResult) {
        match unreadable {
            Some(cause) if self.unreadable.insert(table) => {
                result.newly_unreadable.push((table, cause));
            }
            None if self.unreadable.remove(&table) => result.readable_again.push(table),
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "tests/guarded_chain_check.rs"]
mod tests;
