//! A kernel made of a [`RuleSet`], behind the same trait as the real one, with faults on demand.
//!
//! Apart from test folders because it is the meaning of `iptables-restore --noflush` and nothing
//! else: kernel tests hold it against the real programs.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use nix::errno::Errno;

use super::{Ending, Iptables, ListedChains, NoCounter, RestoreError, Restored, RunError};
use crate::rules::{Payload, Rule, RuleSet, Table};

/// What goes wrong, once each, in the order given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The restore does nothing and fails, as if killed.
    Restore,
    /// Another program holds the lock.
    Locked,
    /// Another program holds the lock once the first table of the payload is applied.
    LockedBehindFirst,
    /// The save fails.
    Save,
    /// The listing of chains fails.
    List,
    /// The save says that the table has a rule that it cannot print.
    Unprintable,
    /// A counter is not made.
    Counter,
}

/// How restores fail of a payload that has a certain text. Tables before it are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poison {
    /// The first line with the text is refused.
    Line,
    /// The table is refused without naming a line.
    Commit,
    /// The program is killed.
    Kill,
}

/// A kernel that is not there.
#[derive(Debug, Default)]
pub struct Fake {
    rules: RefCell<RuleSet>,
    payloads: RefCell<Vec<String>>,
    faults: RefCell<VecDeque<Fault>>,
    keeps_counters: Cell<bool>,
    counters: RefCell<BTreeSet<String>>,
    unprintable: RefCell<BTreeSet<(Table, String)>>,
    poisons: RefCell<Vec<(String, Poison)>>,
}

impl Fake {
    /// A kernel that holds `rules` already.
    pub fn holding(rules: RuleSet) -> Self {
        Self {
            rules: rules.into(),
            ..Self::default()
        }
    }

    /// What it holds now.
    pub fn rules(&self) -> RuleSet {
        self.rules.borrow().clone()
    }

    /// Replaces what it holds, as somebody else might.
    pub fn set_rules(&self, rules: RuleSet) {
        self.rules.replace(rules);
    }

    /// The payloads it was given since the last call, refused ones too.
    pub fn take_payloads(&self) -> Vec<String> {
        self.payloads.take()
    }

    /// From now on these chains begin with a rule that cannot be printed.
    pub fn set_unprintable(&self, chains: &[(Table, &str)]) {
        let chains = chains
            .iter()
            .map(|(table, chain)| (*table, (*chain).to_owned()));
        self.unprintable.replace(chains.collect());
    }

    /// From now on payloads with these texts fail.
    pub fn set_poisons(&self, poisons: &[(&str, Poison)]) {
        let poisons = poisons.iter().map(|(text, how)| ((*text).to_owned(), *how));
        self.poisons.replace(poisons.collect());
    }

    /// Applies the tables before the first poisoned line, and fails there.
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
        let stderr = "injected".to_owned();
        Some(match how {
            Poison::Line => RestoreError::Refused {
                line: at + 1,
                reason: stderr,
            },
            Poison::Commit => RestoreError::Failed { status: 1, stderr },
            Poison::Kill => RestoreError::Killed { signal: 9, stderr },
        })
    }

    /// From now on it makes the counters that it is asked for.
    pub fn keep_counters(&self) {
        self.keeps_counters.set(true);
    }

    /// Lets the next call of that kind fail.
    pub fn inject(&self, fault: Fault) {
        self.faults.borrow_mut().push_back(fault);
    }

    fn strikes(&self, fault: Fault) -> bool {
        let mut faults = self.faults.borrow_mut();
        let is_next = faults.front() == Some(&fault);
        if is_next {
            faults.pop_front();
        }
        is_next
    }

    /// The first line that names a counter nobody made, counted from 1.
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

fn locked(committed: usize) -> RestoreError {
    RestoreError::Locked {
        waited: Duration::from_secs(5),
        committed,
    }
}

fn no_answer() -> RunError {
    RunError::Failed {
        program: "iptables-save".to_owned(),
        ending: Ending::Exited(4),
        stderr: "injected".to_owned(),
    }
}

fn unprintable() -> RunError {
    RunError::Unprintable {
        program: "iptables-save".to_owned(),
        said: "Can't find library for match `injected'".to_owned(),
    }
}

impl Iptables for Fake {
    async fn restore(&self, payload: &mut dyn Payload) -> Result<Restored, RestoreError> {
        let mut bytes = Vec::new();
        while payload.write_next(&mut bytes) {}
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let applied = if self.strikes(Fault::Restore) {
            Err(RestoreError::Killed {
                signal: 9,
                stderr: "injected".to_owned(),
            })
        } else if self.strikes(Fault::Locked) {
            Err(locked(0))
        } else if self.strikes(Fault::LockedBehindFirst) {
            let first = text.find("COMMIT\n").map_or(0, |at| at + "COMMIT\n".len());
            let first = text.get(..first).unwrap_or_default();
            match self.rules.borrow_mut().apply(first) {
                Ok(()) => Err(locked(1)),
                Err(refused) => Err(RestoreError::Refused {
                    line: refused.line,
                    reason: refused.reason.to_string(),
                }),
            }
        } else if let Some(error) = self.poisoned(&text) {
            Err(error)
        } else if let Some(line) = self.line_without_counter(&text) {
            Err(RestoreError::Refused {
                line,
                reason: "no such counter".to_owned(),
            })
        } else {
            let refused = self.rules.borrow_mut().apply(&text);
            refused.map_err(|refused| RestoreError::Refused {
                line: refused.line,
                reason: refused.reason.to_string(),
            })
        };
        self.payloads.borrow_mut().push(text);
        let payload_bytes = bytes.len() as u64;
        applied.map(|()| Restored {
            payload_bytes,
            ..Restored::default()
        })
    }

    async fn save(&self, table: Table, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        if self.strikes(Fault::Save) {
            return Err(no_answer());
        }
        if self.strikes(Fault::Unprintable)
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
        section
            .get(..end)
            .unwrap_or_default()
            .lines()
            .for_each(each);
        Ok(())
    }

    async fn list(&self, table: Table, chains: &[&str]) -> Result<ListedChains, RunError> {
        if self.strikes(Fault::List) {
            return Err(no_answer());
        }
        let rules = self.rules.borrow();
        let mut lines = Vec::new();
        for name in chains {
            let Some(chain) = rules.chain(table, name) else {
                return Ok(ListedChains::Missing);
            };
            lines.push(format!("-N {name}\n"));
            if self
                .unprintable
                .borrow()
                .contains(&(table, (*name).to_owned()))
            {
                return Ok(ListedChains::Cut {
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

    async fn make_counter(&self, name: &str) -> Result<(), NoCounter> {
        if self.strikes(Fault::Counter) || !self.keeps_counters.get() {
            return Err(NoCounter::Kernel {
                name: name.to_owned(),
                reason: Errno::EOPNOTSUPP,
            });
        }
        self.counters.borrow_mut().insert(name.to_owned());
        Ok(())
    }
}
