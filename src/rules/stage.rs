//! The changes to one table between `*table` and `COMMIT`.
//!
//! Apart from the table itself so that a refused payload leaves it as it was, without copying
//! the tens of thousands of rules that the payload does not name: a chain is copied when it is
//! first touched.
//!
//! Commands are judged in the order of the lines, as both back ends do: a chain must be there
//! before a rule jumps to it, and the last jump must be gone before it is deleted.

use std::collections::BTreeMap;

use super::chain::{Chain, Chains, Policy};
use super::command::Command;
use super::reason::Reason;
use super::rule::Rule;

/// Whether jumps are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A save: the kernel had these rules, so a jump to no known chain is a target that this
    /// program has never heard of.
    Kernel,
    /// A payload, which may be wrong.
    Payload,
}

/// A table and what is about to change in it.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    base: &'a Chains,
    origin: Origin,
    changes: Changes,
}

/// What [`Chains::commit`] carries out.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// `None`: deleted.
    chains: BTreeMap<Box<str>, Option<Chain>>,
    references: BTreeMap<Box<str>, isize>,
}

impl Chains {
    /// Makes the changes, which were staged on this very table.
    pub(super) fn commit(&mut self, changes: Changes) {
        for (name, change) in changes.chains {
            match change {
                Some(chain) => drop(self.by_name.insert(name, chain)),
                None => drop(self.by_name.remove(&name)),
            }
        }
        for (name, change) in changes.references {
            self.add_references(&name, change);
        }
    }
}

impl<'a> Stage<'a> {
    pub(super) fn new(base: &'a Chains, origin: Origin) -> Self {
        Self {
            base,
            origin,
            changes: Changes::default(),
        }
    }

    pub(super) fn into_changes(self) -> Changes {
        self.changes
    }

    /// Obeys one command, or refuses it and is then of no further use.
    pub(super) fn obey(&mut self, command: Command<'_>) -> Result<(), Reason> {
        match command {
            Command::Declare(chain, policy) => self.declare(chain, policy),
            Command::Append(chain, rule) => {
                self.enter(&rule)?;
                self.chain_mut(chain)?.rules.push(rule);
                Ok(())
            }
            Command::Insert(chain, number, rule) => self.insert(chain, number, rule),
            Command::Replace(chain, number, rule) => {
                self.delete_at(chain, number)?;
                self.insert(chain, number, rule)
            }
            Command::Delete(chain, rule) => {
                let rules = &self.chain(chain)?.rules;
                let at = rules.iter().position(|held| *held == rule);
                let at = at.ok_or_else(|| Reason::NoRule(chain.to_owned()))?;
                self.delete_at(chain, at + 1)
            }
            Command::DeleteAt(chain, number) => self.delete_at(chain, number),
            Command::Flush(Some(chain)) => self.flush(chain),
            Command::Flush(None) => self.for_all(Self::flush, |_| true),
            Command::Remove(Some(chain)) => self.remove(chain),
            Command::Remove(None) => self.for_all(Self::remove, |chain| chain.policy.is_none()),
            Command::New(chain) => match self.chain(chain) {
                Ok(_) => Err(Reason::ChainExists(chain.to_owned())),
                Err(_) => self.declare(chain, None),
            },
            Command::SetPolicy(chain, policy) => self.set_policy(chain, policy),
            Command::Nothing => Ok(()),
        }
    }

    fn chain(&self, name: &str) -> Result<&Chain, Reason> {
        match self.changes.chains.get(name) {
            Some(staged) => staged.as_ref(),
            None => self.base.by_name.get(name),
        }
        .ok_or_else(|| Reason::NoChain(name.to_owned()))
    }

    fn chain_mut(&mut self, name: &str) -> Result<&mut Chain, Reason> {
        if !self.changes.chains.contains_key(name) {
            let copy = self.base.by_name.get(name).cloned();
            self.changes.chains.insert(name.into(), copy);
        }
        let staged = self.changes.chains.get_mut(name).and_then(Option::as_mut);
        staged.ok_or_else(|| Reason::NoChain(name.to_owned()))
    }

    /// `:CHAIN`. With `--noflush` a built-in chain keeps its rules, seen with both back ends.
    fn declare(&mut self, name: &str, policy: Option<Policy>) -> Result<(), Reason> {
        match (self.chain(name).map(|chain| chain.policy), policy) {
            (Ok(Some(_)), None) => Ok(()),
            (Ok(Some(_)), Some(policy)) => self.set_policy(name, policy),
            (Ok(None), None) => self.flush(name),
            (Err(_), policy) if policy.is_none() || self.origin == Origin::Kernel => {
                let rules = Vec::new();
                let empty = Some(Chain { policy, rules });
                self.changes.chains.insert(name.into(), empty);
                Ok(())
            }
            (Ok(None) | Err(_), _) => Err(Reason::BadChain(name.to_owned())),
        }
    }

    fn set_policy(&mut self, name: &str, policy: Policy) -> Result<(), Reason> {
        match &mut self.chain_mut(name)?.policy {
            Some(held) => {
                *held = policy;
                Ok(())
            }
            None => Err(Reason::BadChain(name.to_owned())),
        }
    }

    fn insert(&mut self, name: &str, number: usize, rule: Rule) -> Result<(), Reason> {
        self.enter(&rule)?;
        let rules = &mut self.chain_mut(name)?.rules;
        match number.checked_sub(1) {
            Some(at) if at <= rules.len() => {
                rules.insert(at, rule);
                Ok(())
            }
            _ => Err(no_position(name, number)),
        }
    }

    fn delete_at(&mut self, name: &str, number: usize) -> Result<(), Reason> {
        let rules = &mut self.chain_mut(name)?.rules;
        let removed = match number.checked_sub(1) {
            Some(at) if at < rules.len() => rules.remove(at),
            _ => return Err(no_position(name, number)),
        };
        self.leave(&removed);
        Ok(())
    }

    fn flush(&mut self, name: &str) -> Result<(), Reason> {
        let policy = self.chain(name)?.policy;
        let rules = Vec::new();
        let empty = Some(Chain { policy, rules });
        // The rules are not copied first: a full payload flushes every chain there is.
        if let Some(staged) = self.changes.chains.insert(name.into(), empty) {
            let rules = staged.map(|chain| chain.rules).unwrap_or_default();
            for rule in &rules {
                self.leave(rule);
            }
            return Ok(());
        }
        let base = self.base;
        if let Some(chain) = base.by_name.get(name) {
            for rule in &chain.rules {
                self.leave(rule);
            }
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), Reason> {
        let chain = self.chain(name)?;
        if chain.policy.is_some() {
            return Err(Reason::BadChain(name.to_owned()));
        }
        if !chain.rules.is_empty() {
            return Err(Reason::NotEmpty(name.to_owned()));
        }
        if self.is_referenced(name) {
            return Err(Reason::Referenced(name.to_owned()));
        }
        self.changes.chains.insert(name.into(), None);
        Ok(())
    }

    fn for_all(
        &mut self,
        act: impl Fn(&mut Self, &str) -> Result<(), Reason>,
        chosen: impl Fn(&Chain) -> bool,
    ) -> Result<(), Reason> {
        let mut names: Vec<Box<str>> = self.base.by_name.keys().cloned().collect();
        names.extend(self.changes.chains.keys().cloned());
        names.sort();
        names.dedup();
        for name in &names {
            if self.chain(name).is_ok_and(&chosen) {
                act(self, name)?;
            }
        }
        Ok(())
    }

    fn is_referenced(&self, name: &str) -> bool {
        let base = self.base.references.get(name).copied().unwrap_or(0);
        let change = self.changes.references.get(name).copied().unwrap_or(0);
        base.saturating_add_signed(change) > 0
    }

    /// Checks where the rule leads and counts it.
    fn enter(&mut self, rule: &Rule) -> Result<(), Reason> {
        let Some(target) = rule.target_chain() else {
            return Ok(());
        };
        let is_legal = self.chain(target).is_ok_and(|chain| chain.policy.is_none());
        if !is_legal && self.origin == Origin::Payload {
            return Err(Reason::NoTarget(target.to_owned()));
        }
        self.count(target, 1);
        Ok(())
    }

    fn leave(&mut self, rule: &Rule) {
        if let Some(target) = rule.target_chain() {
            self.count(target, -1);
        }
    }

    fn count(&mut self, target: &str, change: isize) {
        match self.changes.references.get_mut(target) {
            Some(sum) => *sum = sum.saturating_add(change),
            None => drop(self.changes.references.insert(target.into(), change)),
        }
    }
}

fn no_position(chain: &str, number: usize) -> Reason {
    Reason::NoPosition {
        chain: chain.to_owned(),
        number,
    }
}
