//! When our rules in the kernel are checked, and what a check found.
//!
//! Rules disappear when a firewall is reloaded, or when an administrator flushes or edits a table.
//!
//! Upstream: pkg/util/iptables/iptables.go, `Monitor` (v1.36)
//!
//! Differs from upstream: one table that lost rules is enough for a restore at once, instead of a
//! wait of up to five seconds for all of them to be flushed. A flush that is still going on is
//! caught by two checks soon after.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::edited::{Edited, EditedChains, FixedChain};
use super::table_check::{Loss, TableCheck, check_table};
use crate::host::{ChangeDetection, Iptables, ProgramExit, RunError};
use crate::render::{Jump, Options};
use crate::rules::Table;

/// The tables to check, the cheapest first.
pub(super) const TABLES: [Table; 3] = [Table::Mangle, Table::Filter, Table::Nat];

/// Shortest interval between checks, whatever the sync period: a check is three processes.
const SHORTEST: Duration = Duration::from_millis(100);

/// Intervals of the checks after a loss: a reload of a firewall goes from table to table, and
/// removes what was restored between two of them. A loss found then is restored and begins nothing
/// anew: a program that never stops flushing causes three restores in each period, not one a
/// second.
const SOON: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// When to check.
#[derive(Debug)]
pub(super) struct Canary {
    /// `None`: never.
    every: Option<Duration>,
    next: Option<Instant>,
    /// The checks soon after a loss that are still to come.
    soon: &'static [Duration],
    /// The tables that the last check could not read.
    unreadable: BTreeSet<Table>,
    edited: EditedChains,
    /// The table that is being checked.
    current: Option<Table>,
    /// A restore of ours ended after the last check.
    has_restored: bool,
}

/// Findings of a check.
#[derive(Debug, Default)]
pub(super) struct CheckResult {
    /// The tables that could not be read, each once until it can be read again.
    pub(super) newly_unreadable: Vec<(Table, RunError)>,
    /// The tables that can be read again.
    pub(super) readable_again: Vec<Table>,
    /// A table that has lost its rules of ours. Tables after it were not checked.
    pub(super) gone: Option<(Table, Loss)>,
    /// Fixed chains with third-party rules that are to be written anew now.
    pub(super) edited: Vec<Edited>,
    /// Fixed chains that lack rules of ours.
    pub(super) incomplete: Vec<FixedChain>,
    /// Jumps of ours that are missing.
    pub(super) missing: Vec<&'static Jump>,
}

impl CheckResult {
    /// Reports whether single rules of ours are missing: others may be missing as well.
    pub(super) fn is_incomplete(&self) -> bool {
        !self.incomplete.is_empty() || !self.missing.is_empty()
    }
}

impl Canary {
    /// Checks at that interval, once there is something to check for.
    pub(super) fn new(every: Option<Duration>, now: Instant) -> Self {
        let every = every.map(|every| every.max(SHORTEST));
        Self {
            every,
            next: every.map(|every| now + every),
            soon: &[],
            unreadable: BTreeSet::new(),
            edited: EditedChains::default(),
            current: None,
            has_restored: false,
        }
    }

    /// When to check next, if ever.
    pub(super) const fn next_check(&self) -> Option<Instant> {
        self.next
    }

    /// The tables that the last check could not read.
    pub(super) const fn unreadable(&self) -> &BTreeSet<Table> {
        &self.unreadable
    }

    /// Checks some tables for the rules that were written with these options; `None` if it is not
    /// known what the kernel holds, so that nothing is checked for.
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

    /// Notes that a restore of ours ended.
    pub(super) fn restored(&mut self) {
        self.has_restored = true;
    }

    /// The tables to check in each period: all of them, unless changes are noticed otherwise, so
    /// that only those need another check that could not be read or hold third-party rules.
    pub(super) fn periodic(&self, detection: ChangeDetection) -> Vec<Table> {
        let is_unknown = match detection {
            ChangeDetection::Off => true,
            ChangeDetection::BySize => self.has_restored,
            ChangeDetection::ByEvents => false,
        };
        let needs_check = |table: &Table| {
            is_unknown || self.unreadable.contains(table) || self.edited.has(*table)
        };
        TABLES.into_iter().filter(needs_check).collect()
    }

    /// Findings of a check that was dropped after this long: the table that it was at counts as
    /// unreadable.
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

    /// Sets the time of the next check after one that ended now: programs that hang for longer than
    /// the interval must not make checks follow each other without a pause.
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
        result.edited = self.edited.due(&edited_now, tables, first, now);
        result
    }

    /// Notes whether a table could be read, and reports only changes of that.
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
#[path = "tests/canary.rs"]
mod tests;
