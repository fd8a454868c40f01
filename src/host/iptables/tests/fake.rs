//! The implementation of [`Iptables`] for tests: a [`RuleSet`] in place of the kernel, with faults
//! on demand.
//!
//! Integration tests also use it, by the feature `testing`. Tests with a real kernel compare it
//! with `iptables-restore --noflush`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use nix::errno::Errno;

use super::interface::{CounterError, Iptables, ListedChains, RestoreError, Restored, RunError};
use super::process::ProgramExit;
use crate::rules::{Payload, Rule, RuleSet, Table};

/// Fault of one call. Injected faults happen once each, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The restore has no injected fault: those after it are for later restores.
    None,
    /// The restore fails as if killed, without applying anything.
    Restore,
    /// Another program holds the lock.
    Locked,
    /// Another program holds the lock after the first table of the payload was applied.
    LockedAfterFirst,
    /// The save fails.
    Save,
    /// The listing of chains fails.
    List,
    /// The save fails because of a rule that it cannot print.
    Unprintable,
    /// The creation of a counter fails.
    Counter,
}

/// Failure of every restore whose payload contains a certain text. Tables before it are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poison {
    /// The first line with the text is rejected.
    Line,
    /// The table is rejected without naming a line.
    Commit,
    /// The program is killed.
    Kill,
}

/// Double of the kernel, for tests.
#[derive(Debug, Default)]
pub struct Fake {
    rules: RefCell<RuleSet>,
    payloads: RefCell<Vec<String>>,
    faults: RefCell<VecDeque<Fault>>,
    keeps_counters: Cell<bool>,
    counters: RefCell<BTreeSet<String>>,
    unprintable: RefCell<BTreeSet<(Table, String)>>,
    poisons: RefCell<Vec<(String, Poison)>>,
    listings: Cell<usize>,
}

impl Fake {
    /// Returns a kernel that holds `rules`.
    pub fn holding(rules: RuleSet) -> Self {
        Self {
            rules: rules.into(),
            ..Self::default()
        }
    }

    /// Returns the current rules.
    pub fn rules(&self) -> RuleSet {
        self.rules.borrow().clone()
    }

    /// Replaces all rules, as another program might.
    pub fn set_rules(&self, rules: RuleSet) {
        self.rules.replace(rules);
    }

    /// Returns the payloads of all restores since the last call, also of failed ones.
    pub fn take_payloads(&self) -> Vec<String> {
        self.payloads.take()
    }

    /// Returns the number of listings of chains since the last call.
    pub fn take_listings(&self) -> usize {
        self.listings.take()
    }

    /// Puts a rule that cannot be printed in front of these chains, from now on.
    pub fn set_unprintable(&self, chains: &[(Table, &str)]) {
        let chains = chains
            .iter()
            .map(|(table, chain)| (*table, (*chain).to_owned()));
        self.unprintable.replace(chains.collect());
    }

    /// Lets payloads with these texts fail, from now on.
    pub fn set_poisons(&self, poisons: &[(&str, Poison)]) {
        let poisons = poisons.iter().map(|(text, how)| ((*text).to_owned(), *how));
        self.poisons.replace(poisons.collect());
    }

    /// Applies the tables before the first poisoned line, and returns its error.
    fn poisoned(&self, text: &str) -> Option<RestoreError> {
        let poisons = self.poisons.borrow();
        let poison_of = |line: &str| poisons.iter().find(|(part, _)| line.contains(part));
        let found = text.lines().enumerate();
        let (at, how) = found
            .into_iter()
            .find_map(|(at, line)| Some((at, poison_of(line)?.1)))?;
        let before: Vec<_> = text.split_inclusive('\n').take(at).collect();
        let ends = before.iter().rposition(|line| *line == "COMMIT\n");
        let committed = before
            .get(..ends.map_or(0, |end| end + 1))
            .unwrap_or_default();
        let _ = self.rules.borrow_mut().apply(&committed.concat());
        Some(match how {
            Poison::Line => rejected(at + 1, "injected"),
            Poison::Commit => failed(ProgramExit::Exited(1)),
            Poison::Kill => failed(ProgramExit::Signaled(9)),
        })
    }

    fn apply(&self, text: &str) -> Result<(), RestoreError> {
        let applied = self.rules.borrow_mut().apply(text);
        applied.map_err(|rejection| rejected(rejection.line, &rejection.reason))
    }

    /// Supports counters from now on.
    pub fn keep_counters(&self) {
        self.keeps_counters.set(true);
    }

    /// Lets the next call of a kind fail.
    pub fn inject(&self, fault: Fault) {
        self.faults.borrow_mut().push_back(fault);
    }

    /// Reports whether faults are still to come.
    pub fn has_faults(&self) -> bool {
        !self.faults.borrow().is_empty()
    }

    /// Drops the faults that are still to come.
    pub fn clear_faults(&self) {
        self.faults.borrow_mut().clear();
    }

    fn takes_fault(&self, fault: Fault) -> bool {
        let mut faults = self.faults.borrow_mut();
        let is_next = faults.front() == Some(&fault);
        if is_next {
            faults.pop_front();
        }
        is_next
    }

    /// Returns the number, from 1, of the first line that names a missing counter.
    fn line_without_counter(&self, text: &str) -> Option<usize> {
        let counters = self.counters.borrow();
        let is_missing = |line: &str| {
            let after = line.split_once("--nfacct-name ");
            let name = after.and_then(|(_, after)| after.split_whitespace().next());
            name.is_some_and(|name| !counters.contains(name))
        };
        text.lines().position(is_missing).map(|before| before + 1)
    }
}

fn rejected(line: usize, reason: &str) -> RestoreError {
    let reason = reason.to_owned();
    RestoreError::Rejected { line, reason }
}

fn failed(exit: ProgramExit) -> RestoreError {
    let stderr = "injected".to_owned();
    RestoreError::Failed { exit, stderr }
}

fn locked(committed: usize) -> RestoreError {
    RestoreError::Locked {
        waited: Duration::from_secs(5),
        committed,
    }
}

fn read_failure() -> RunError {
    RunError::Failed {
        program: "iptables-save".to_owned(),
        exit: ProgramExit::Exited(4),
        stderr: "injected".to_owned(),
    }
}

fn unprintable() -> RunError {
    RunError::Unprintable {
        program: "iptables-save".to_owned(),
        reason: "Can't find library for match `injected'".to_owned(),
    }
}

impl Iptables for Fake {
    async fn restore(
        &self,
        payload: &mut dyn Payload,
        _: Option<Duration>,
    ) -> Result<Restored, RestoreError> {
        let mut bytes = Vec::new();
        while payload.write_next(&mut bytes) {}
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let is_spared = self.takes_fault(Fault::None);
        let takes = |fault| !is_spared && self.takes_fault(fault);
        let applied = if takes(Fault::Restore) {
            Err(failed(ProgramExit::Signaled(9)))
        } else if takes(Fault::Locked) {
            Err(locked(0))
        } else if takes(Fault::LockedAfterFirst) {
            let first = text.find("COMMIT\n").map_or(0, |at| at + "COMMIT\n".len());
            let first = text.get(..first).unwrap_or_default();
            self.apply(first).and(Err(locked(1)))
        } else if let Some(error) = self.poisoned(&text) {
            Err(error)
        } else if let Some(line) = self.line_without_counter(&text) {
            Err(rejected(line, "no such counter"))
        } else {
            self.apply(&text)
        };
        self.payloads.borrow_mut().push(text);
        let payload_bytes = bytes.len() as u64;
        applied.map(|()| Restored {
            payload_bytes,
            ..Restored::default()
        })
    }

    async fn save(&self, table: Table, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        if self.takes_fault(Fault::Save) {
            return Err(read_failure());
        }
        if self.takes_fault(Fault::Unprintable)
            || self.unprintable.borrow().iter().any(|(of, _)| *of == table)
        {
            return Err(unprintable());
        }
        let save = self.rules.borrow().to_save_text();
        let wanted = format!("*{table}\n");
        let start = save.find(&wanted).unwrap_or(save.len());
        let section = save.get(start..).unwrap_or_default();
        let end = section
            .find("COMMIT\n")
            .map_or(section.len(), |at| at + "COMMIT\n".len());
        let lines = section.get(..end).unwrap_or_default().lines();
        lines.for_each(each);
        Ok(())
    }

    async fn list(&self, table: Table, chains: &[&str]) -> Result<ListedChains, RunError> {
        self.listings.set(self.listings.get() + 1);
        if self.takes_fault(Fault::List) {
            return Err(read_failure());
        }
        let (rules, hidden) = (self.rules.borrow(), self.unprintable.borrow());
        let mut lines = Vec::new();
        for name in chains {
            let Some(chain) = rules.chain(table, name) else {
                return Ok(ListedChains::Missing);
            };
            lines.push(format!("-N {name}\n"));
            if hidden.contains(&(table, (*name).to_owned())) {
                return Ok(ListedChains::Truncated {
                    printed: lines.concat(),
                    chain: (*name).to_owned(),
                    cause: unprintable(),
                });
            }
            lines.extend(chain.rules.iter().map(|rule| format!("-A {name} {rule}\n")));
        }
        Ok(ListedChains::Whole(lines.concat()))
    }

    async fn has(&self, table: Table, chain: &str, rule: &str) -> Result<bool, RunError> {
        let rules = self.rules.borrow();
        let known = rules.chain(table, chain);
        let wanted = rule.parse::<Rule>().ok();
        Ok(known.is_some_and(|chain| chain.rules.iter().any(|rule| Some(rule) == wanted.as_ref())))
    }

    async fn make_counter(&self, name: &str) -> Result<(), CounterError> {
        if self.takes_fault(Fault::Counter) || !self.keeps_counters.get() {
            return Err(CounterError::Kernel {
                name: name.to_owned(),
                reason: Errno::EOPNOTSUPP,
            });
        }
        self.counters.borrow_mut().insert(name.to_owned());
        Ok(())
    }
}
