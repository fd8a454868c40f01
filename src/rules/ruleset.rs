//! Holds the rules of one family, and applies payloads like `iptables-restore --noflush`.
//!
//! # Invariants
//!
//! - Every table has its built-in chains.
//! - A rejected payload changes neither the table of the rejected line nor later ones; tables
//!   committed before stay committed.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;
use std::sync::mpsc;
use std::thread;

use super::chain::{Chain, Chains};
use super::error::{ApplyError, LineError, ParseError};
use super::grammar::Rule;
use super::table::{Table, TracedTable};
use super::transaction::{RestoreCommand, TextOrigin, Transaction, parse_command};

/// Rules of one IP family, as in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    tables: BTreeMap<TracedTable, Chains>,
    /// Number of rules of each unknown table.
    unknown: BTreeMap<Box<str>, usize>,
}

impl Default for RuleSet {
    /// Returns the rule set of a node without rules.
    fn default() -> Self {
        let tables = TracedTable::ALL.into_iter();
        Self {
            tables: tables.map(|table| (table, Chains::new(table))).collect(),
            unknown: BTreeMap::new(),
        }
    }
}

impl RuleSet {
    /// Parses the output of `iptables-save`. A rule that cannot be parsed is kept as text, because
    /// the kernel has it.
    pub fn parse(save_text: &str) -> Result<Self, ParseError> {
        let mut rule_set = Self::default();
        rule_set.add_tables(save_text)?;
        Ok(rule_set)
    }

    /// Adds the tables of another output of `iptables-save`.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse); the tables before the line are added.
    pub fn add_tables(&mut self, save_text: &str) -> Result<(), ParseError> {
        let read = self.read(save_text, TextOrigin::Kernel);
        read.map_err(|ApplyError { line, reason }| ParseError { line, reason })
    }

    /// Removes all rules and chains of a table, as if it had never been used.
    pub fn clear(&mut self, table: Table) {
        let table = table.into();
        self.tables.insert(table, Chains::new(table));
    }

    /// Replaces each jump to a selected chain by the rules of that chain, and removes the chain.
    /// One with several jumps to it replaces the first.
    pub fn inline_chains(&mut self, is_selected: impl Fn(Table, &str) -> bool) {
        for (table, chains) in &mut self.tables {
            if let Some(table) = table.of_proxy() {
                chains.inline(&|name| is_selected(table, name));
            }
        }
    }

    /// Applies a payload like `iptables-restore --noflush`.
    pub fn apply(&mut self, payload: &str) -> Result<(), ApplyError> {
        self.read(payload, TextOrigin::Payload)
    }

    /// Returns the chain, if it exists.
    pub fn chain(&self, table: Table, name: &str) -> Option<&Chain> {
        self.tables.get(&table.into())?.by_name.get(name)
    }

    /// Returns the rules of a chain; none if it does not exist.
    pub fn rules_of(&self, table: Table, chain: &str) -> &[Rule] {
        self.chain(table, chain).map_or(&[], |chain| &chain.rules)
    }

    /// Returns the chain and its name, both with the lifetime of the rule set.
    pub(super) fn find(&self, table: TracedTable, name: &str) -> Option<(&str, &Chain)> {
        let found = self.tables.get(&table)?.by_name.get_key_value(name);
        found.map(|(name, chain)| (name.as_ref(), chain))
    }

    /// Returns all chains of a table, sorted by name.
    pub fn chains(&self, table: Table) -> impl Iterator<Item = (&str, &Chain)> {
        let chains = self.tables.get(&table.into()).into_iter();
        chains
            .flat_map(|chains| &chains.by_name)
            .map(|(name, chain)| (name.as_ref(), chain))
    }

    /// Returns the number of rules in the table.
    pub fn rule_count(&self, table: Table) -> usize {
        let chains = self.tables.get(&table.into());
        chains.map_or(0, Chains::rule_count)
    }

    /// Returns the number of rules of the table that jump or go to the chain.
    pub fn reference_count(&self, table: Table, chain: &str) -> usize {
        let chains = self.tables.get(&table.into());
        let count = chains.and_then(|chains| chains.references.get(chain));
        count.copied().unwrap_or(0)
    }

    /// Returns the rules of the proxy's tables that could not be parsed, with their chains.
    pub fn unparsed_rules(&self) -> impl Iterator<Item = (Table, &str, &Rule)> {
        let chains = Table::ALL.into_iter().flat_map(|table| {
            self.chains(table)
                .map(move |(name, chain)| (table, name, chain))
        });
        chains
            .flat_map(|(table, name, chain)| {
                chain.rules.iter().map(move |rule| (table, name, rule))
            })
            .filter(|(_, _, rule)| rule.is_unparsed())
    }

    /// Returns the unknown tables of the parsed text, with their numbers of rules.
    pub fn unknown_tables(&self) -> impl Iterator<Item = (&str, usize)> {
        self.unknown.iter().map(|(name, rules)| (&**name, *rules))
    }

    /// Returns the number of rules in tables that the proxy does not use.
    pub fn rule_count_elsewhere(&self) -> usize {
        let others = self.tables.iter();
        let others = others.filter(|(table, _)| table.of_proxy().is_none());
        let known: usize = others.map(|(_, chains)| chains.rule_count()).sum();
        known + self.unknown.values().sum::<usize>()
    }

    /// Returns the rules in the format of `iptables-save`, with sorted chains and zero counters,
    /// and without tables in their initial state.
    pub fn to_save_text(&self) -> String {
        self.to_string()
    }

    fn read(&mut self, text: &str, origin: TextOrigin) -> Result<(), ApplyError> {
        let mut lines = Lines::new(text);
        while let Some(line) = lines.next_command() {
            let rejected = |reason| lines.rejected(reason);
            let name = line
                .strip_prefix('*')
                .ok_or(LineError::OutsideTable)
                .map_err(rejected)?;
            match TracedTable::from_name(name.trim()) {
                Some(table) => self.read_table(table, &mut lines, origin)?,
                None => self.skip_table(name.trim(), &mut lines)?,
            }
        }
        Ok(())
    }

    fn read_table(
        &mut self,
        table: TracedTable,
        lines: &mut Lines<'_>,
        origin: TextOrigin,
    ) -> Result<(), ApplyError> {
        let chains = self
            .tables
            .entry(table)
            .or_insert_with(|| Chains::new(table));
        let mut transaction = Transaction::new(chains, origin);
        let (commands, committed) = lines.until_commit();
        parse_all(&commands, origin, |line, command| {
            command
                .and_then(|command| transaction.apply(command))
                .map_err(|reason| ApplyError { line, reason })
        })?;
        committed?;
        let changes = transaction.into_changes();
        chains.commit(changes);
        Ok(())
    }

    fn skip_table(&mut self, name: &str, lines: &mut Lines<'_>) -> Result<(), ApplyError> {
        let mut rules = 0;
        while let Some(line) = lines.next_until_commit()? {
            rules += usize::from(!line.starts_with(':'));
        }
        *self.unknown.entry(name.into()).or_default() += rules;
        Ok(())
    }
}

/// Commands that a thread parses at a time; a text with fewer is not worth a thread.
const BATCH: usize = 1024;

/// Maximum threads that parse: the commands are applied by one.
const MAX_THREADS: usize = 4;

/// Parses commands, each with the number of its line, and passes them on in their order. Most of
/// the time is spent in parsing, for which each core has a thread.
fn parse_all<'a>(
    commands: &[(usize, &'a str)],
    origin: TextOrigin,
    mut apply: impl FnMut(usize, Result<RestoreCommand<'a>, LineError>) -> Result<(), ApplyError>,
) -> Result<(), ApplyError> {
    let cores = || thread::available_parallelism().map_or(1, NonZero::get);
    if commands.len() <= BATCH || cores() == 1 {
        let mut commands = commands.iter();
        return commands.try_for_each(|(line, text)| apply(*line, parse_command(text, origin)));
    }
    let batches: Vec<_> = commands.chunks(BATCH).collect();
    let threads = cores().min(MAX_THREADS);
    thread::scope(|scope| {
        let parsers = (0..threads).map(|first| {
            let (parsed, receiver) = mpsc::sync_channel(2);
            let batches = batches.iter().skip(first).step_by(threads);
            let parse = move |batch: &&[(usize, &'a str)]| -> Vec<_> {
                let commands = batch.iter().map(|(_, text)| parse_command(text, origin));
                commands.collect()
            };
            scope.spawn(move || {
                // After an error there is no receiver.
                let _ = batches.map(parse).try_for_each(|batch| parsed.send(batch));
            });
            receiver
        });
        let parsers: Vec<mpsc::Receiver<_>> = parsers.collect();
        for (batch, parser) in batches.iter().zip(parsers.iter().cycle()) {
            // Only a panic ends a thread before, which then ends this one.
            let parsed = parser.recv().unwrap_or_default();
            for ((line, _), command) in batch.iter().zip(parsed) {
                apply(*line, command)?;
            }
        }
        Ok(())
    })
}

/// Lines of a text without blank lines and comments, and the number of the current line.
struct Lines<'a> {
    lines: std::str::Lines<'a>,
    number: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            lines: text.lines(),
            number: 0,
        }
    }

    fn next_command(&mut self) -> Option<&'a str> {
        loop {
            self.number += 1;
            let line = self.lines.next()?.trim();
            if !line.is_empty() && !line.starts_with('#') {
                return Some(line);
            }
        }
    }

    /// Returns the next command of a table; `None` at its `COMMIT`.
    fn next_until_commit(&mut self) -> Result<Option<&'a str>, ApplyError> {
        match self.next_command() {
            Some("COMMIT") => Ok(None),
            Some(line) if !line.starts_with('*') => Ok(Some(line)),
            Some(_) | None => Err(self.rejected(LineError::MissingCommit)),
        }
    }

    /// Returns the commands of a table with the numbers of their lines, and whether a `COMMIT`
    /// follows.
    fn until_commit(&mut self) -> (Vec<(usize, &'a str)>, Result<(), ApplyError>) {
        let mut commands = Vec::new();
        loop {
            match self.next_until_commit() {
                Ok(Some(line)) => commands.push((self.number, line)),
                Ok(None) => return (commands, Ok(())),
                Err(error) => return (commands, Err(error)),
            }
        }
    }

    fn rejected(&self, reason: LineError) -> ApplyError {
        ApplyError {
            line: self.number,
            reason,
        }
    }
}

impl fmt::Display for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (table, chains) in &self.tables {
            if !chains.is_pristine() {
                write_table(f, *table, chains)?;
            }
        }
        Ok(())
    }
}

fn write_table(f: &mut fmt::Formatter<'_>, table: TracedTable, chains: &Chains) -> fmt::Result {
    writeln!(f, "*{table}")?;
    for (name, chain) in &chains.by_name {
        match chain.policy {
            Some(policy) => writeln!(f, ":{name} {policy} [0:0]")?,
            None => writeln!(f, ":{name} - [0:0]")?,
        }
    }
    for (name, chain) in &chains.by_name {
        for rule in &chain.rules {
            writeln!(f, "{}", format!("-A {name} {rule}").trim_end())?;
        }
    }
    writeln!(f, "COMMIT")
}
