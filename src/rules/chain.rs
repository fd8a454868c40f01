//! Chains, and the chains of one table. The built-in ones always exist.

use std::collections::BTreeMap;
use std::fmt;

use super::grammar::Rule;
use super::table::TracedTable;

/// Verdict on a packet that reaches the end of a built-in chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum ChainPolicy {
    /// The packet continues with the next hook.
    #[default]
    Accept,
    /// The packet is dropped without a reply.
    Drop,
}

impl ChainPolicy {
    pub(super) fn read(text: &str) -> Option<Self> {
        match text {
            "ACCEPT" => Some(Self::Accept),
            "DROP" => Some(Self::Drop),
            _ => None,
        }
    }
}

impl fmt::Display for ChainPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accept => "ACCEPT",
            Self::Drop => "DROP",
        })
    }
}

/// Rules of one chain, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// Policy of a built-in chain; `None` for a user chain.
    pub policy: Option<ChainPolicy>,
    pub rules: Vec<Rule>,
}

/// Chains of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chains {
    pub(super) by_name: BTreeMap<Box<str>, Chain>,
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

    /// Replaces each jump to a selected chain by the rules of that chain, and removes the chain.
    pub(super) fn inline(&mut self, is_selected: &dyn Fn(&str) -> bool) {
        let leads_on = |rule: &Rule| rule.target_chain().is_some_and(is_selected);
        let from: Vec<Box<str>> = self
            .by_name
            .iter()
            .filter(|(name, chain)| !is_selected(name) && chain.rules.iter().any(leads_on))
            .map(|(name, _)| name.clone())
            .collect();
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
}
