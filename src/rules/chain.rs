//! Chains of a table, the commands between `*table` and `COMMIT`, and their effect on the chains.
//!
//! They are what a kernel printed, or a payload that one accepted: a rule that cannot be parsed is
//! kept as text, and deleting an unknown chain is not an error.

use hashbrown::HashMap;

use super::error::LineError;
use super::grammar::{Rule, is_altered, until_blank, without_blanks, without_counters};
use super::table::TracedTable;

enum_of_words! {
    all
    /// Verdict on a packet that reaches the end of a built-in chain.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub enum ChainPolicy {
        /// The packet continues with the next hook.
        #[default]
        Accept = "ACCEPT",
        /// The packet is dropped without a reply.
        Drop = "DROP",
    }
}

impl ChainPolicy {
    pub(super) fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == text)
    }
}

/// Rules of one chain, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// Policy of a built-in chain; `None` for a user chain.
    pub policy: Option<ChainPolicy>,
    pub rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chains {
    /// A node has a hundred thousand, and each is looked up several times.
    pub(super) by_name: HashMap<Box<str>, Chain>,
}

impl Chains {
    /// Returns a table as the kernel creates it: empty built-in chains with policy ACCEPT.
    pub(super) fn new(table: TracedTable) -> Self {
        let built_in = || Chain {
            policy: Some(ChainPolicy::Accept),
            rules: Vec::new(),
        };
        let names = table.built_in_chains().iter();
        Self {
            by_name: names.map(|name| (Box::from(*name), built_in())).collect(),
        }
    }

    pub(super) fn rule_count(&self) -> usize {
        self.by_name.values().map(|chain| chain.rules.len()).sum()
    }

    /// Returns all chains, sorted by name.
    pub(super) fn sorted(&self) -> Vec<(&str, &Chain)> {
        let chains = self.by_name.iter();
        let mut chains: Vec<_> = chains.map(|(name, chain)| (&**name, chain)).collect();
        chains.sort_unstable_by_key(|(name, _)| *name);
        chains
    }

    /// Replaces each jump to a selected chain by the rules of that chain, and removes the chain. Of
    /// several jumps to it, the first in the order of names is replaced; the others lead nowhere.
    pub(super) fn inline(&mut self, is_selected: &dyn Fn(&str) -> bool) {
        let leads_on = |rule: &Rule| rule.target_chain().is_some_and(is_selected);
        let mut from: Vec<Box<str>> = self
            .by_name
            .iter()
            .filter(|(name, chain)| !is_selected(name) && chain.rules.iter().any(leads_on))
            .map(|(name, _)| name.clone())
            .collect();
        from.sort_unstable();
        for name in from {
            let Some(chain) = self.by_name.get_mut(&name) else {
                continue;
            };
            let mut rules = Vec::new();
            // The next rule is last, so that rules of an inlined chain come next.
            let mut rest = std::mem::take(&mut chain.rules);
            rest.reverse();
            while let Some(rule) = rest.pop() {
                let target = rule.target_chain().filter(|target| is_selected(target));
                let Some(below) = target.and_then(|target| self.by_name.remove(target)) else {
                    rules.push(rule);
                    continue;
                };
                rest.extend(below.rules.into_iter().rev());
            }
            if let Some(chain) = self.by_name.get_mut(&name) {
                chain.rules = rules;
            }
        }
    }

    pub(super) fn apply(&mut self, command: RestoreCommand<'_>) -> Result<(), LineError> {
        match command {
            RestoreCommand::Declare(name, policy) => self.declare(name, policy)?,
            RestoreCommand::Append(name, spec) => self.append(name, vec![appended(spec)])?,
            RestoreCommand::Insert(name, number, spec) => {
                let rule = spec.parse()?;
                let rules = &mut self.chain_mut(name)?.rules;
                match number.checked_sub(1) {
                    Some(at) if at <= rules.len() => rules.insert(at, rule),
                    _ => return Err(LineError::UnexpectedWord(number.to_string())),
                }
            }
            RestoreCommand::Flush(name) => self.chain_mut(name)?.rules.clear(),
            RestoreCommand::Remove(name) => {
                let chain = self.by_name.get(name);
                if chain.is_some_and(|chain| chain.policy.is_some()) {
                    return Err(LineError::InvalidChain(name.to_owned()));
                }
                self.by_name.remove(name);
            }
            RestoreCommand::Nothing => {}
        }
        Ok(())
    }

    /// Appends rules to a chain.
    pub(super) fn append(&mut self, name: &str, mut added: Vec<Rule>) -> Result<(), LineError> {
        let rules = &mut self.chain_mut(name)?.rules;
        if rules.is_empty() {
            *rules = added;
        } else {
            rules.append(&mut added);
        }
        Ok(())
    }

    /// Declares a chain. With `--noflush` a built-in chain keeps its rules, in both backends.
    fn declare(&mut self, name: &str, policy: Option<ChainPolicy>) -> Result<(), LineError> {
        match (self.by_name.get_mut(name), policy) {
            (
                Some(Chain {
                    policy: Some(current),
                    ..
                }),
                Some(policy),
            ) => *current = policy,
            (
                Some(Chain {
                    policy: Some(_), ..
                }),
                None,
            ) => {}
            (Some(chain), None) => chain.rules.clear(),
            (Some(_), Some(_)) => return Err(LineError::InvalidChain(name.to_owned())),
            (None, policy) => {
                let rules = Vec::new();
                self.by_name.insert(name.into(), Chain { policy, rules });
            }
        }
        Ok(())
    }

    fn chain_mut(&mut self, name: &str) -> Result<&mut Chain, LineError> {
        let chain = self.by_name.get_mut(name);
        chain.ok_or_else(|| LineError::ChainNotFound(name.to_owned()))
    }
}

/// Command on one line of a table; rules are not parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestoreCommand<'a> {
    /// `:CHAIN policy`, `-N` and `-P`: creates or flushes a user chain, sets the policy of a
    /// built-in one.
    Declare(&'a str, Option<ChainPolicy>),
    /// `-A` with a chain and the text of a rule, which [`appended`] parses.
    Append(&'a str, &'a str),
    /// `-I` with a chain, the number of the rule to insert before, counted from 1, and the text of
    /// a rule.
    Insert(&'a str, usize, &'a str),
    /// `-F` with a chain.
    Flush(&'a str),
    /// `-X` with a chain.
    Remove(&'a str),
    /// Lists rules or zeroes counters; changes no rules.
    Nothing,
}

/// Parses one line, which is not empty, a comment, `*table` or `COMMIT`.
pub(super) fn parse_command(line: &str) -> Result<RestoreCommand<'_>, LineError> {
    if let Some(declared) = line.strip_prefix(':') {
        let (chain, rest) = split_word(declared);
        let (policy, _counters) = split_word(rest);
        return Ok(match policy {
            "" => return Err(LineError::MissingValue(format!(":{chain}"))),
            "-" => RestoreCommand::Declare(chain, None),
            policy => RestoreCommand::Declare(chain, Some(parse_policy(chain, policy)?)),
        });
    }
    let (verb, rest) = split_word(without_counters(line));
    let (chain, rest) = split_word(rest);
    Ok(match verb {
        "-S" | "--list-rules" | "-L" | "--list" | "-Z" | "--zero" => RestoreCommand::Nothing,
        _ if chain.is_empty() => return Err(LineError::UnknownCommand(line.to_owned())),
        "-A" | "--append" => RestoreCommand::Append(chain, rest),
        "-I" | "--insert" => {
            let (number, rest) = split_number(rest);
            RestoreCommand::Insert(chain, number.unwrap_or(1), rest)
        }
        "-F" | "--flush" => RestoreCommand::Flush(chain),
        "-X" | "--delete-chain" => RestoreCommand::Remove(chain),
        "-N" | "--new-chain" => RestoreCommand::Declare(chain, None),
        "-P" | "--policy" => RestoreCommand::Declare(chain, Some(parse_policy(chain, rest)?)),
        _ => return Err(LineError::UnknownCommand(verb.to_owned())),
    })
}

/// Parses the rule of `-A`, or keeps it as text.
pub(super) fn appended(spec: &str) -> Rule {
    match spec.parse() {
        Ok(rule) if !is_altered(spec, &rule) => rule,
        _ => Rule::unparsed(spec),
    }
}

fn parse_policy(chain: &str, text: &str) -> Result<ChainPolicy, LineError> {
    ChainPolicy::read(text).ok_or_else(|| LineError::InvalidChain(chain.to_owned()))
}

pub(super) fn split_word(text: &str) -> (&str, &str) {
    let text = without_blanks(text);
    until_blank(text).map_or((text, ""), |(word, rest)| {
        (word, without_blanks(rest).trim_end())
    })
}

pub(super) fn split_number(text: &str) -> (Option<usize>, &str) {
    let (word, rest) = split_word(text);
    match word.parse() {
        Ok(number) => (Some(number), rest),
        Err(_) => (None, text),
    }
}
