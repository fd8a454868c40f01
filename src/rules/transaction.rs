//! Parses the commands between `*table` and `COMMIT`, and applies them as one transaction.
//!
//! A rejected payload leaves the table unchanged. To that end changes are staged: a chain is
//! copied when a command first changes it, and not the tens of thousands of rules that the payload
//! does not name.
//!
//! Commands are checked in the order of the lines, as in both backends: a chain must exist before
//! a rule jumps to it, and the last jump must be deleted before the chain.

use hashbrown::HashMap;

use super::chain::{Chain, ChainPolicy, Chains};
use super::error::LineError;
use super::grammar::{Rule, is_altered, without_counters};
use super::table::MAX_CHAIN_NAME;

/// Origin of a text, which decides whether names and jumps are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextOrigin {
    /// Output of `iptables-save`: the kernel has these rules, so a jump to a chain that does not
    /// exist is an unsupported target.
    Kernel,
    /// A payload, which may be invalid.
    Payload,
}

/// Command on one line of a table.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RestoreCommand<'a> {
    /// `:CHAIN policy`: creates or flushes a user chain, sets the policy of a built-in one.
    Declare(&'a str, Option<ChainPolicy>),
    /// `-A`.
    Append(&'a str, Rule),
    /// `-I`, before the rule of that number, counted from 1.
    Insert(&'a str, usize, Rule),
    /// `-R`.
    Replace(&'a str, usize, Rule),
    /// `-D` with a rule.
    Delete(&'a str, Rule),
    /// `-D` with a number.
    DeleteAt(&'a str, usize),
    /// `-F`; without a chain, all chains.
    Flush(Option<&'a str>),
    /// `-X`; without a chain, all user chains.
    Remove(Option<&'a str>),
    /// `-N`.
    New(&'a str),
    /// `-P`.
    SetPolicy(&'a str, ChainPolicy),
    /// Lists rules or zeroes counters; changes no rules.
    Nothing,
}

/// Parses one line, which is not empty, a comment, `*table` or `COMMIT`.
pub(super) fn parse_command(
    line: &str,
    origin: TextOrigin,
) -> Result<RestoreCommand<'_>, LineError> {
    if let Some(declared) = line.strip_prefix(':') {
        return declare(declared, origin);
    }
    let (verb, rest) = split_word(without_counters(line));
    let (chain, rest) = split_word(rest);
    match verb {
        "-F" | "--flush" => return Ok(RestoreCommand::Flush(non_empty(chain))),
        "-X" | "--delete-chain" => return Ok(RestoreCommand::Remove(non_empty(chain))),
        "-S" | "--list-rules" | "-L" | "--list" | "-Z" | "--zero" => {
            return Ok(RestoreCommand::Nothing);
        }
        _ if chain.is_empty() => return Err(LineError::UnknownCommand(line.to_owned())),
        _ => {}
    }
    let (number, after_number) = split_number(rest);
    Ok(match verb {
        "-A" | "--append" => RestoreCommand::Append(chain, appended(rest, origin)?),
        "-I" | "--insert" => {
            RestoreCommand::Insert(chain, number.unwrap_or(1), after_number.parse()?)
        }
        "-R" | "--replace" => {
            let number = number.ok_or_else(|| LineError::MissingValue(verb.to_owned()))?;
            RestoreCommand::Replace(chain, number, after_number.parse()?)
        }
        "-D" | "--delete" => match number {
            Some(number) => RestoreCommand::DeleteAt(chain, number),
            None => RestoreCommand::Delete(chain, rest.parse()?),
        },
        "-N" | "--new-chain" => RestoreCommand::New(new_name(chain)?),
        "-P" | "--policy" => {
            let policy =
                ChainPolicy::read(rest).ok_or_else(|| LineError::InvalidChain(chain.to_owned()))?;
            RestoreCommand::SetPolicy(chain, policy)
        }
        _ => return Err(LineError::UnknownCommand(verb.to_owned())),
    })
}

/// Parses the rule of `-A`. A rule of the kernel that cannot be parsed is kept as text.
fn appended(spec: &str, origin: TextOrigin) -> Result<Rule, LineError> {
    match (spec.parse(), origin) {
        (Ok(rule), TextOrigin::Kernel) if is_altered(spec, &rule) => Ok(Rule::unparsed(spec)),
        (Err(_), TextOrigin::Kernel) => Ok(Rule::unparsed(spec)),
        (read, _) => read,
    }
}

fn declare(text: &str, origin: TextOrigin) -> Result<RestoreCommand<'_>, LineError> {
    let (chain, rest) = split_word(text);
    let (policy, _counters) = split_word(rest);
    let policy = match policy {
        "" => return Err(LineError::MissingValue(format!(":{chain}"))),
        "-" => None,
        other => Some(
            ChainPolicy::read(other).ok_or_else(|| LineError::InvalidChain(chain.to_owned()))?,
        ),
    };
    match origin {
        // Other programs and old releases accept names that `iptables-restore` rejects.
        TextOrigin::Kernel => Ok(RestoreCommand::Declare(chain, policy)),
        TextOrigin::Payload => Ok(RestoreCommand::Declare(new_name(chain)?, policy)),
    }
}

/// Checks the name of a chain to create.
fn new_name(chain: &str) -> Result<&str, LineError> {
    if chain.len() > MAX_CHAIN_NAME {
        return Err(LineError::LongChainName(chain.to_owned()));
    }
    let is_verdict = matches!(chain, "ACCEPT" | "DROP" | "RETURN" | "QUEUE");
    if chain.is_empty() || is_verdict || chain.starts_with(['-', '!']) {
        return Err(LineError::InvalidChain(chain.to_owned()));
    }
    Ok(chain)
}

fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once([' ', '\t'])
        .map_or((text, ""), |(word, rest)| (word, rest.trim()))
}

fn split_number(text: &str) -> (Option<usize>, &str) {
    let (word, rest) = split_word(text);
    match word.parse() {
        Ok(number) => (Some(number), rest),
        Err(_) => (None, text),
    }
}

fn non_empty(chain: &str) -> Option<&str> {
    (!chain.is_empty()).then_some(chain)
}

/// Table and the changes to it that are not committed yet.
#[derive(Debug)]
pub(super) struct Transaction {
    base: Chains,
    origin: TextOrigin,
    changes: StagedChanges,
}

/// Staged changes of one table.
#[derive(Debug, Default)]
struct StagedChanges {
    /// Changed chains; `None`: deleted.
    chains: HashMap<Box<str>, Option<Chain>>,
    /// Changes to the reference counts.
    references: HashMap<Box<str>, isize>,
}

impl Chains {
    /// Applies changes that were staged on this table.
    fn commit(&mut self, changes: StagedChanges) {
        let chains = changes.chains.into_iter();
        let (kept, deleted): (Vec<_>, Vec<_>) = chains.partition(|(_, chain)| chain.is_some());
        for (name, _) in deleted {
            self.by_name.remove(&name);
        }
        // Sorted and merged: a listing has tens of thousands of chains.
        let kept = kept.into_iter();
        let mut kept = kept
            .filter_map(|(name, chain)| Some((name, chain?)))
            .collect();
        self.by_name.append(&mut kept);
        for (name, change) in changes.references {
            self.add_references(&name, change);
        }
    }
}

impl Transaction {
    pub(super) fn new(base: Chains, origin: TextOrigin) -> Self {
        Self {
            base,
            origin,
            changes: StagedChanges::default(),
        }
    }

    /// Returns the table with the changes.
    pub(super) fn commit(mut self) -> Chains {
        self.base.commit(self.changes);
        self.base
    }

    /// Returns the table as it was before.
    pub(super) fn roll_back(self) -> Chains {
        self.base
    }

    /// Stages one command. After an error the transaction must be discarded.
    pub(super) fn apply(&mut self, command: RestoreCommand<'_>) -> Result<(), LineError> {
        match command {
            RestoreCommand::Declare(chain, policy) => self.declare(chain, policy),
            RestoreCommand::Append(chain, rule) => {
                self.add_reference(&rule)?;
                let rules = &mut self.chain_mut(chain)?.rules;
                if rules.is_empty() {
                    // As many as an endpoint chain has; most chains are of endpoints.
                    rules.reserve_exact(2);
                }
                rules.push(rule);
                Ok(())
            }
            RestoreCommand::Insert(chain, number, rule) => self.insert(chain, number, rule),
            RestoreCommand::Replace(chain, number, rule) => {
                self.delete_at(chain, number)?;
                self.insert(chain, number, rule)
            }
            RestoreCommand::Delete(chain, rule) => {
                let rules = &self.chain(chain)?.rules;
                let at = rules.iter().position(|other| *other == rule);
                let at = at.ok_or_else(|| LineError::RuleNotFound(chain.to_owned()))?;
                self.delete_at(chain, at + 1)
            }
            RestoreCommand::DeleteAt(chain, number) => self.delete_at(chain, number),
            RestoreCommand::Flush(Some(chain)) => self.flush(chain),
            RestoreCommand::Flush(None) => self.for_all(Self::flush, |_| true),
            RestoreCommand::Remove(Some(chain)) => self.remove(chain),
            RestoreCommand::Remove(None) => {
                self.for_all(Self::remove, |chain| chain.policy.is_none())
            }
            RestoreCommand::New(chain) => match self.chain(chain) {
                Ok(_) => Err(LineError::ChainExists(chain.to_owned())),
                Err(_) => self.declare(chain, None),
            },
            RestoreCommand::SetPolicy(chain, policy) => self.set_policy(chain, policy),
            RestoreCommand::Nothing => Ok(()),
        }
    }

    fn chain(&self, name: &str) -> Result<&Chain, LineError> {
        match self.changes.chains.get(name) {
            Some(staged) => staged.as_ref(),
            None => self.base.by_name.get(name),
        }
        .ok_or_else(|| LineError::ChainNotFound(name.to_owned()))
    }

    fn chain_mut(&mut self, name: &str) -> Result<&mut Chain, LineError> {
        if !self.changes.chains.contains_key(name) {
            let copy = self.base.by_name.get(name).cloned();
            self.changes.chains.insert(name.into(), copy);
        }
        let staged = self.changes.chains.get_mut(name).and_then(Option::as_mut);
        staged.ok_or_else(|| LineError::ChainNotFound(name.to_owned()))
    }

    /// Applies `:CHAIN`. With `--noflush` a built-in chain keeps its rules, in both backends.
    fn declare(&mut self, name: &str, policy: Option<ChainPolicy>) -> Result<(), LineError> {
        match (self.chain(name).map(|chain| chain.policy), policy) {
            (Ok(Some(_)), None) => Ok(()),
            (Ok(Some(_)), Some(policy)) => self.set_policy(name, policy),
            (Ok(None), None) => self.flush(name),
            (Err(_), policy) if policy.is_none() || self.origin == TextOrigin::Kernel => {
                let rules = Vec::new();
                let empty = Some(Chain { policy, rules });
                self.changes.chains.insert(name.into(), empty);
                Ok(())
            }
            (Ok(None) | Err(_), _) => Err(LineError::InvalidChain(name.to_owned())),
        }
    }

    fn set_policy(&mut self, name: &str, policy: ChainPolicy) -> Result<(), LineError> {
        match &mut self.chain_mut(name)?.policy {
            Some(current) => {
                *current = policy;
                Ok(())
            }
            None => Err(LineError::InvalidChain(name.to_owned())),
        }
    }

    fn insert(&mut self, name: &str, number: usize, rule: Rule) -> Result<(), LineError> {
        self.add_reference(&rule)?;
        let rules = &mut self.chain_mut(name)?.rules;
        match number.checked_sub(1) {
            Some(at) if at <= rules.len() => {
                rules.insert(at, rule);
                Ok(())
            }
            _ => Err(no_such_number(name, number)),
        }
    }

    fn delete_at(&mut self, name: &str, number: usize) -> Result<(), LineError> {
        let rules = &mut self.chain_mut(name)?.rules;
        let removed = match number.checked_sub(1) {
            Some(at) if at < rules.len() => rules.remove(at),
            _ => return Err(no_such_number(name, number)),
        };
        self.changes.drop_reference(&removed);
        Ok(())
    }

    fn flush(&mut self, name: &str) -> Result<(), LineError> {
        let policy = self.chain(name)?.policy;
        let rules = Vec::new();
        let empty = Some(Chain { policy, rules });
        // The rules are not copied first: a full payload flushes every chain.
        if let Some(staged) = self.changes.chains.insert(name.into(), empty) {
            let rules = staged.map(|chain| chain.rules).unwrap_or_default();
            for rule in &rules {
                self.changes.drop_reference(rule);
            }
            return Ok(());
        }
        if let Some(chain) = self.base.by_name.get(name) {
            for rule in &chain.rules {
                self.changes.drop_reference(rule);
            }
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), LineError> {
        // Payloads that are kept as dumps delete chains that only the kernel had.
        if self.origin == TextOrigin::Kernel && self.chain(name).is_err() {
            return Ok(());
        }
        let chain = self.chain(name)?;
        if chain.policy.is_some() {
            return Err(LineError::InvalidChain(name.to_owned()));
        }
        if !chain.rules.is_empty() {
            return Err(LineError::ChainNotEmpty(name.to_owned()));
        }
        if self.is_referenced(name) {
            return Err(LineError::ChainReferenced(name.to_owned()));
        }
        self.changes.chains.insert(name.into(), None);
        Ok(())
    }

    fn for_all(
        &mut self,
        apply: impl Fn(&mut Self, &str) -> Result<(), LineError>,
        is_chosen: impl Fn(&Chain) -> bool,
    ) -> Result<(), LineError> {
        let mut names: Vec<Box<str>> = self.base.by_name.keys().cloned().collect();
        names.extend(self.changes.chains.keys().cloned());
        names.sort();
        names.dedup();
        for name in &names {
            if self.chain(name).is_ok_and(&is_chosen) {
                apply(self, name)?;
            }
        }
        Ok(())
    }

    fn is_referenced(&self, name: &str) -> bool {
        let base = self.base.references.get(name).copied().unwrap_or(0);
        let change = self.changes.references.get(name).copied().unwrap_or(0);
        base.saturating_add_signed(change) > 0
    }

    /// Checks the chain that the rule jumps to and counts the reference.
    fn add_reference(&mut self, rule: &Rule) -> Result<(), LineError> {
        let Some(target) = rule.target_chain() else {
            return Ok(());
        };
        let is_legal = || self.chain(target).is_ok_and(|chain| chain.policy.is_none());
        if self.origin == TextOrigin::Payload && !is_legal() {
            return Err(LineError::TargetNotFound(target.to_owned()));
        }
        self.changes.count_reference(target, 1);
        Ok(())
    }
}

impl StagedChanges {
    fn drop_reference(&mut self, rule: &Rule) {
        if let Some(target) = rule.target_chain() {
            self.count_reference(target, -1);
        }
    }

    fn count_reference(&mut self, target: &str, change: isize) {
        match self.references.get_mut(target) {
            Some(sum) => *sum = sum.saturating_add(change),
            None => drop(self.references.insert(target.into(), change)),
        }
    }
}

fn no_such_number(chain: &str, number: usize) -> LineError {
    LineError::RuleNumberNotFound {
        chain: chain.to_owned(),
        number,
    }
}
