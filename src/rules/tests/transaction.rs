//! Applies payloads like `iptables-restore --noflush`, in place of the kernel, and prints rules
//! like `iptables-save`. Tests with a real kernel compare it with both backends.
//!
//! A rejected payload changes neither the table of the rejected line nor later ones; tables
//! committed before stay committed. To that end changes are staged: a chain is copied when a
//! command first changes it, and not the tens of thousands of rules that the payload does not
//! name.
//!
//! Commands are checked in the order of the lines, as in both backends: a chain must exist before
//! a rule jumps to it, and the last jump must be deleted before the chain.

use std::error::Error;
use std::fmt;

use hashbrown::HashMap;

use super::RuleSet;
use crate::rules::chain::{Chain, ChainPolicy, Chains};
use crate::rules::chain::{RestoreCommand, parse_command, split_number, split_word};
use crate::rules::error::LineError;
use crate::rules::grammar::{Rule, without_counters};
use crate::rules::table::{Table, TracedTable};

/// Maximum length of a chain name in bytes: `XT_EXTENSION_MAXNAMELEN` without the final zero. Both
/// backends reject longer names.
const MAX_CHAIN_NAME: usize = 28;

/// Error of applying a payload that `iptables-restore` would reject too. Tables committed before
/// `line` stay committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} rejected: {reason}")]
pub struct ApplyError {
    /// Line number, counted from 1.
    pub line: usize,
    pub reason: String,
}

/// Result of a line, with the reason for which it is rejected.
type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

impl RuleSet {
    /// Applies a payload like `iptables-restore --noflush`.
    pub fn apply(&mut self, payload: &str) -> Result<(), ApplyError> {
        let mut open: Option<(TracedTable, Transaction)> = None;
        let mut unknown = None;
        let mut count = 0;
        for (number, line) in (1..).zip(payload.lines().map(str::trim)) {
            count = number;
            let applied = match (line.strip_prefix('*'), &mut open, &mut unknown) {
                _ if line.is_empty() || line.starts_with('#') => Ok(()),
                (Some(name), None, None) => {
                    match TracedTable::from_name(name.trim()) {
                        Some(table) => {
                            let chains = self.tables.remove(&table);
                            let base = chains.unwrap_or_else(|| Chains::new(table));
                            open = Some((table, Transaction::new(base)));
                        }
                        None => unknown = Some((Box::from(name.trim()), 0)),
                    }
                    Ok(())
                }
                (Some(_), ..) => Err(LineError::MissingCommit.into()),
                (None, None, None) => Err(LineError::OutsideTable.into()),
                (None, ..) if line == "COMMIT" => {
                    if let Some((table, transaction)) = open.take() {
                        self.tables.insert(table, transaction.commit());
                    }
                    if let Some((name, rules)) = unknown.take() {
                        *self.unknown.entry(name).or_default() += rules;
                    }
                    Ok(())
                }
                (None, Some((_, transaction)), _) => transaction.apply(line),
                (None, None, Some((_, rules))) => {
                    *rules += usize::from(!line.starts_with(':'));
                    Ok(())
                }
            };
            if let Err(reason) = applied {
                self.roll_back(open);
                return Err(ApplyError {
                    line: number,
                    reason: reason.to_string(),
                });
            }
        }
        if open.is_none() && unknown.is_none() {
            return Ok(());
        }
        self.roll_back(open);
        Err(ApplyError {
            line: count + 1,
            reason: LineError::MissingCommit.to_string(),
        })
    }

    fn roll_back(&mut self, open: Option<(TracedTable, Transaction)>) {
        if let Some((table, transaction)) = open {
            self.tables.insert(table, transaction.base);
        }
    }

    /// Returns the number of rules in the table.
    pub fn rule_count(&self, table: Table) -> usize {
        let chains = self.tables.get(&table.into());
        chains.map_or(0, Chains::rule_count)
    }

    /// Returns the rules in the format of `iptables-save`, with sorted chains and zero counters,
    /// and without tables in their initial state.
    pub fn to_save_text(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (table, chains) in &self.tables {
            if *chains != Chains::new(*table) {
                write_table(f, *table, chains)?;
            }
        }
        Ok(())
    }
}

fn write_table(f: &mut fmt::Formatter<'_>, table: TracedTable, chains: &Chains) -> fmt::Result {
    writeln!(f, "*{table}")?;
    let chains = chains.sorted();
    for (name, chain) in &chains {
        match chain.policy {
            Some(policy) => writeln!(f, ":{name} {policy} [0:0]")?,
            None => writeln!(f, ":{name} - [0:0]")?,
        }
    }
    for (name, chain) in &chains {
        for rule in &chain.rules {
            writeln!(f, "{}", format!("-A {name} {rule}").trim_end())?;
        }
    }
    writeln!(f, "COMMIT")
}

/// Checks the name of a chain to create.
fn check_name(chain: &str) -> Result {
    if chain.len() > MAX_CHAIN_NAME {
        return Err(format!("chain name `{chain}` is longer than {MAX_CHAIN_NAME} bytes").into());
    }
    let is_verdict = matches!(chain, "ACCEPT" | "DROP" | "RETURN" | "QUEUE");
    if chain.is_empty() || is_verdict || chain.starts_with(['-', '!']) {
        return Err(invalid(chain));
    }
    Ok(())
}

fn invalid(chain: &str) -> Box<dyn Error> {
    LineError::InvalidChain(chain.to_owned()).into()
}

fn not_found(chain: &str) -> Box<dyn Error> {
    LineError::ChainNotFound(chain.to_owned()).into()
}

/// Table and the changes to it that are not committed yet.
#[derive(Debug)]
struct Transaction {
    base: Chains,
    /// Changed chains; `None`: deleted.
    chains: HashMap<Box<str>, Option<Chain>>,
    /// Number of rules that jump to a chain, counted when a chain is first deleted.
    references: Option<HashMap<Box<str>, usize>>,
}

impl Transaction {
    fn new(base: Chains) -> Self {
        Self {
            base,
            chains: HashMap::new(),
            references: None,
        }
    }

    /// Returns the table with the changes.
    fn commit(mut self) -> Chains {
        let chains = self.chains.into_iter();
        let (kept, deleted): (Vec<_>, Vec<_>) = chains.partition(|(_, chain)| chain.is_some());
        for (name, _) in deleted {
            self.base.by_name.remove(&name);
        }
        let kept = kept.into_iter();
        let kept = kept.filter_map(|(name, chain)| Some((name, chain?)));
        self.base.by_name.extend(kept);
        self.base
    }

    /// Stages one line. After an error the transaction must be discarded.
    fn apply(&mut self, line: &str) -> Result {
        let (verb, rest) = split_word(without_counters(line));
        let (chain, rest) = split_word(rest);
        let (number, after_number) = split_number(rest);
        match (verb, number) {
            ("-F", _) if chain.is_empty() => self.for_all(Self::flush, |_| true),
            ("-X", _) if chain.is_empty() => {
                self.for_all(Self::remove, |chain| chain.policy.is_none())
            }
            ("-N", _) if self.chain(chain).is_ok() => {
                Err(format!("chain `{chain}` already exists").into())
            }
            ("-P", _) if self.chain(chain).is_err() => Err(not_found(chain)),
            ("-R", Some(number)) => {
                self.delete_at(chain, number)?;
                let rule = after_number.parse()?;
                self.insert(chain, number, rule)
            }
            ("-D", Some(number)) => self.delete_at(chain, number),
            ("-D", None) => {
                let rule: Rule = rest.parse()?;
                let rules = &self.chain(chain)?.rules;
                let at = rules.iter().position(|other| *other == rule);
                let at = at.ok_or_else(|| format!("no such rule in chain `{chain}`"))?;
                self.delete_at(chain, at + 1)
            }
            _ => self.apply_command(parse_command(line)?),
        }
    }

    fn apply_command(&mut self, command: RestoreCommand<'_>) -> Result {
        match command {
            RestoreCommand::Declare(chain, policy) => {
                check_name(chain)?;
                self.declare(chain, policy)
            }
            RestoreCommand::Append(chain, spec) => self.append(chain, spec.parse()?),
            RestoreCommand::Insert(chain, number, spec) => {
                self.insert(chain, number, spec.parse()?)
            }
            RestoreCommand::Flush(chain) => self.flush(chain),
            RestoreCommand::Remove(chain) => self.remove(chain),
            RestoreCommand::Nothing => Ok(()),
        }
    }

    fn chain(&self, name: &str) -> Result<&Chain> {
        match self.chains.get(name) {
            Some(staged) => staged.as_ref(),
            None => self.base.by_name.get(name),
        }
        .ok_or_else(|| not_found(name))
    }

    fn chain_mut(&mut self, name: &str) -> Result<&mut Chain> {
        if !self.chains.contains_key(name) {
            let copy = self.base.by_name.get(name).cloned();
            self.chains.insert(name.into(), copy);
        }
        let staged = self.chains.get_mut(name).and_then(Option::as_mut);
        staged.ok_or_else(|| not_found(name))
    }

    /// Applies `:CHAIN`. With `--noflush` a built-in chain keeps its rules, in both backends.
    fn declare(&mut self, name: &str, policy: Option<ChainPolicy>) -> Result {
        match (self.chain(name).map(|chain| chain.policy), policy) {
            (Ok(Some(_)), None) => Ok(()),
            (Ok(Some(_)), Some(_)) => {
                self.chain_mut(name)?.policy = policy;
                Ok(())
            }
            (Ok(None), None) => self.flush(name),
            (Err(_), None) => {
                self.chains.insert(name.into(), Some(Chain::default()));
                Ok(())
            }
            (Ok(None) | Err(_), Some(_)) => Err(invalid(name)),
        }
    }

    fn append(&mut self, name: &str, rule: Rule) -> Result {
        self.add_reference(&rule)?;
        self.chain_mut(name)?.rules.push(rule);
        Ok(())
    }

    fn insert(&mut self, name: &str, number: usize, rule: Rule) -> Result {
        self.add_reference(&rule)?;
        let rules = &mut self.chain_mut(name)?.rules;
        match number.checked_sub(1) {
            Some(at) if at <= rules.len() => {
                rules.insert(at, rule);
                Ok(())
            }
            _ => Err(format!("no rule number {number} in chain `{name}`").into()),
        }
    }

    fn delete_at(&mut self, name: &str, number: usize) -> Result {
        let rules = &mut self.chain_mut(name)?.rules;
        let removed = match number.checked_sub(1) {
            Some(at) if at < rules.len() => rules.remove(at),
            _ => return Err(format!("no rule number {number} in chain `{name}`").into()),
        };
        self.drop_references(&[removed]);
        Ok(())
    }

    fn flush(&mut self, name: &str) -> Result {
        let policy = self.chain(name)?.policy;
        let rules = Vec::new();
        let empty = Some(Chain { policy, rules });
        // The rules are not copied first: a full payload flushes every chain.
        let staged = self.chains.insert(name.into(), empty);
        if self.references.is_some() {
            let before = match staged {
                Some(staged) => staged,
                None => self.base.by_name.get(name).cloned(),
            };
            self.drop_references(&before.unwrap_or_default().rules);
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result {
        let chain = self.chain(name)?;
        if chain.policy.is_some() {
            return Err(invalid(name));
        }
        if !chain.rules.is_empty() {
            return Err(format!("chain `{name}` is not empty").into());
        }
        let references = self.references.take();
        let references = references.unwrap_or_else(|| self.counted());
        let is_referenced = references.get(name).is_some_and(|count| *count > 0);
        self.references = Some(references);
        if is_referenced {
            return Err(format!("chain `{name}` is still referenced").into());
        }
        self.chains.insert(name.into(), None);
        Ok(())
    }

    fn for_all(
        &mut self,
        apply: impl Fn(&mut Self, &str) -> Result,
        is_chosen: impl Fn(&Chain) -> bool,
    ) -> Result {
        let mut names: Vec<Box<str>> = self.base.by_name.keys().cloned().collect();
        names.extend(self.chains.keys().cloned());
        names.sort();
        names.dedup();
        for name in &names {
            if self.chain(name).is_ok_and(&is_chosen) {
                apply(self, name)?;
            }
        }
        Ok(())
    }

    /// Counts the rules that jump to each chain.
    fn counted(&self) -> HashMap<Box<str>, usize> {
        let unchanged = self.base.by_name.iter();
        let unchanged = unchanged.filter(|(name, _)| !self.chains.contains_key(*name));
        let unchanged = unchanged.map(|(_, chain)| chain);
        let chains = unchanged.chain(self.chains.values().flatten());
        let mut counts: HashMap<Box<str>, usize> = HashMap::new();
        for target in chains
            .flat_map(|chain| &chain.rules)
            .filter_map(Rule::target_chain)
        {
            *counts.entry(target.into()).or_default() += 1;
        }
        counts
    }

    /// Checks the chain that the rule jumps to and counts the reference.
    fn add_reference(&mut self, rule: &Rule) -> Result {
        let Some(target) = rule.target_chain() else {
            return Ok(());
        };
        if !self.chain(target).is_ok_and(|chain| chain.policy.is_none()) {
            return Err(format!(
                "cannot jump to chain `{target}`: it does not exist or is built in"
            )
            .into());
        }
        if let Some(counts) = &mut self.references {
            *counts.entry(target.into()).or_default() += 1;
        }
        Ok(())
    }

    fn drop_references(&mut self, rules: &[Rule]) {
        let Some(counts) = &mut self.references else {
            return;
        };
        for target in rules.iter().filter_map(Rule::target_chain) {
            if let Some(count) = counts.get_mut(target) {
                *count -= 1;
            }
        }
    }
}
