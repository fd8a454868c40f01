//! Everything the kernel holds for one family, and the meaning of `iptables-restore --noflush`.
//!
//! Apart because it is the hub of the reading side: the fake kernel applies payloads to it,
//! `diff` compares two of them, the tracer walks one.
//!
//! # Invariants
//!
//! - Every table has its built-in chains.
//! - A refused payload changes nothing in the table where it was refused nor in later ones;
//!   tables committed before stay.

use std::collections::BTreeMap;
use std::fmt;

use super::chain::{Chain, Chains};
use super::command;
use super::reason::{ParseError, Reason, Refused};
use super::rule::Rule;
use super::stage::{Origin, Stage};
use super::table::Table;

/// The rules of one IP family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    tables: BTreeMap<Table, Chains>,
    /// Rules of tables that are not modelled, such as `raw`, by name of the table.
    foreign: BTreeMap<Box<str>, usize>,
}

impl Default for RuleSet {
    /// A machine without rules.
    fn default() -> Self {
        let tables = Table::ALL.into_iter();
        Self {
            tables: tables.map(|table| (table, Chains::new(table))).collect(),
            foreign: BTreeMap::new(),
        }
    }
}

impl RuleSet {
    /// Reads what `iptables-save` printed. A rule that cannot be read is carried as it stands:
    /// somebody's it is, and the kernel has it.
    pub fn parse(save_text: &str) -> Result<Self, ParseError> {
        let mut rule_set = Self::default();
        match rule_set.take(save_text, Origin::Kernel) {
            Ok(()) => Ok(rule_set),
            Err(Refused { line, reason }) => Err(ParseError { line, reason }),
        }
    }

    /// Does what `iptables-restore --noflush` does with the payload.
    pub fn apply(&mut self, payload: &str) -> Result<(), Refused> {
        self.take(payload, Origin::Payload)
    }

    /// The chain, if it is there.
    pub fn chain(&self, table: Table, name: &str) -> Option<&Chain> {
        self.tables.get(&table)?.by_name.get(name)
    }

    /// The chain and its name, both as long as the rule set lives.
    pub(super) fn find(&self, table: Table, name: &str) -> Option<(&str, &Chain)> {
        let found = self.tables.get(&table)?.by_name.get_key_value(name);
        found.map(|(name, chain)| (name.as_ref(), chain))
    }

    /// All chains of a table with their names, sorted.
    pub fn chains(&self, table: Table) -> impl Iterator<Item = (&str, &Chain)> {
        let chains = self.tables.get(&table).into_iter();
        chains
            .flat_map(|chains| &chains.by_name)
            .map(|(name, chain)| (name.as_ref(), chain))
    }

    /// How many rules the table has.
    pub fn rule_count(&self, table: Table) -> usize {
        self.tables.get(&table).map_or(0, Chains::rule_count)
    }

    /// How many rules of the table lead to the chain.
    pub fn reference_count(&self, table: Table, chain: &str) -> usize {
        let chains = self.tables.get(&table);
        let count = chains.and_then(|chains| chains.references.get(chain));
        count.copied().unwrap_or(0)
    }

    /// The rules that were carried without being read, with their chains.
    pub fn opaque_rules(&self) -> impl Iterator<Item = (Table, &str, &Rule)> {
        let chains = Table::ALL.into_iter().flat_map(|table| {
            self.chains(table)
                .map(move |(name, chain)| (table, name, chain))
        });
        chains
            .flat_map(|(table, name, chain)| {
                chain.rules.iter().map(move |rule| (table, name, rule))
            })
            .filter(|(_, _, rule)| rule.is_opaque())
    }

    /// The tables that were met but are not modelled, with how many rules they had.
    pub fn foreign_tables(&self) -> impl Iterator<Item = (&str, usize)> {
        self.foreign.iter().map(|(name, rules)| (&**name, *rules))
    }

    /// The rules as `iptables-save` would print them, except that all chains are sorted, counters
    /// are zero and tables in their first state are left out.
    pub fn to_save_text(&self) -> String {
        self.to_string()
    }

    fn take(&mut self, text: &str, origin: Origin) -> Result<(), Refused> {
        let mut lines = Lines::new(text);
        while let Some(line) = lines.next_command() {
            let refused = |reason| lines.refused(reason);
            let name = line
                .strip_prefix('*')
                .ok_or(Reason::OutsideTable)
                .map_err(refused)?;
            match Table::from_name(name.trim()) {
                Some(table) => self.take_table(table, &mut lines, origin)?,
                None => self.skip_table(name.trim(), &mut lines)?,
            }
        }
        Ok(())
    }

    fn take_table(
        &mut self,
        table: Table,
        lines: &mut Lines<'_>,
        origin: Origin,
    ) -> Result<(), Refused> {
        let chains = self
            .tables
            .entry(table)
            .or_insert_with(|| Chains::new(table));
        let mut stage = Stage::new(chains, origin);
        while let Some(line) = lines.next_until_commit()? {
            command::read(line, origin)
                .and_then(|command| stage.obey(command))
                .map_err(|reason| lines.refused(reason))?;
        }
        let changes = stage.into_changes();
        chains.commit(changes);
        Ok(())
    }

    fn skip_table(&mut self, name: &str, lines: &mut Lines<'_>) -> Result<(), Refused> {
        let mut rules = 0;
        while let Some(line) = lines.next_until_commit()? {
            rules += usize::from(!line.starts_with(':'));
        }
        *self.foreign.entry(name.into()).or_default() += rules;
        Ok(())
    }
}

/// The lines of a text that mean something, and the number of the last one.
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

    /// The next command of a table; `None` at its `COMMIT`.
    fn next_until_commit(&mut self) -> Result<Option<&'a str>, Refused> {
        match self.next_command() {
            Some("COMMIT") => Ok(None),
            Some(line) if !line.starts_with('*') => Ok(Some(line)),
            Some(_) | None => Err(self.refused(Reason::NoCommit)),
        }
    }

    fn refused(&self, reason: Reason) -> Refused {
        Refused {
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

fn write_table(f: &mut fmt::Formatter<'_>, table: Table, chains: &Chains) -> fmt::Result {
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
