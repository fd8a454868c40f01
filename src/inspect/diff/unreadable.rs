//! Sets aside what cannot be compared, because the live side has rules that cannot be read.
//!
//! The kernel has these rules: a desired rule that seems to be missing may be one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::edit::Edit;
use super::review::{ChainReview, NotCompared, Review, UnreadableChain};
use super::unified::RulesetText;
use crate::inspect::catalog::{Catalog, PortName};
use crate::net::IpFamily;
use crate::rules::{RuleSet, Table};
use crate::ruleset::ChainRole;

impl<'a> Review<'a> {
    /// Sets aside the differences that unreadable rules may account for, and the service ports
    /// that have them: the other chains of a service port do not show what it does.
    pub(super) fn set_aside_unreadable(mut self, live: &'a RuleSet) -> Self {
        let mut unreadable: BTreeMap<(Table, &'a str), usize> = BTreeMap::new();
        for (table, chain, _) in live.unparsed_rules() {
            *unreadable.entry((table, chain)).or_default() += 1;
        }
        if unreadable.is_empty() {
            return self;
        }
        let mut chains = BTreeSet::new();
        let mut is_uncertain = |review: &ChainReview<'a>| {
            let (table, chain) = (review.table, review.chain);
            let rules = unreadable.get(&(table, chain)).copied();
            let rules = rules.filter(|_| review.edits.iter().any(depends_on_unreadable));
            chains.extend(rules.map(|rules| UnreadableChain {
                table,
                chain,
                rules,
            }));
            rules.is_some()
        };
        let mut ports = BTreeSet::new();
        self.ports.retain(|port| {
            // All of them, so that each chain is named.
            let uncertain = port.chains.iter().filter(|chain| is_uncertain(chain));
            let is_certain = uncertain.count() == 0;
            if !is_certain {
                ports.insert(port.name.clone());
            }
            is_certain
        });
        self.fixed.retain(|chain| !is_uncertain(chain));
        self.not_compared = NotCompared {
            chains: chains.into_iter().collect(),
            ports,
            ..NotCompared::default()
        };
        self
    }
}

impl RulesetText<'_> {
    /// Leaves out what is not compared of the two sides: service ports, with their chains on either
    /// side, and chains and rules that cannot be read.
    #[must_use]
    pub(crate) fn compared(mut self, not_compared: &NotCompared<'_>, sides: [&RuleSet; 2]) -> Self {
        let ports: BTreeSet<&PortName> = not_compared.ports.iter().collect();
        if ports.is_empty() && not_compared.chains.is_empty() {
            return self;
        }
        let keys: BTreeSet<String> = ports.iter().map(ToString::to_string).collect();
        let catalogs = sides.map(Catalog::read);
        let owners = catalogs.iter().flat_map(Catalog::owners);
        let of_ports = owners.filter(|(_, port)| ports.contains(port));
        let of_ports: BTreeSet<&str> = of_ports.map(|(chain, _)| chain).collect();
        let unreadable = not_compared.chains.iter();
        let unreadable: BTreeSet<_> = unreadable.map(|one| (one.table, one.chain)).collect();
        self.chains.retain_mut(|chain| {
            let is_readable = !unreadable.contains(&(chain.table, chain.name));
            match ChainRole::of(chain.table, chain.name) {
                ChainRole::Service | ChainRole::Tree => !of_ports.contains(chain.name),
                ChainRole::Dispatch => {
                    chain.lists.retain(|(key, _)| !keys.contains(key));
                    for (_, rules) in &mut chain.lists {
                        rules.retain(|rule| is_readable || !rule.is_unparsed());
                    }
                    true
                }
                ChainRole::Fixed | ChainRole::BuiltIn | ChainRole::ThirdParty => is_readable,
            }
        });
        self
    }
}

/// Reports whether the rule may be on both sides: one of them is unreadable, or may be.
fn depends_on_unreadable(edit: &Edit<&crate::rules::Rule>) -> bool {
    match edit {
        Edit::Kept(_) => false,
        Edit::Removed(rule) => rule.is_unparsed(),
        Edit::Added(_) => true,
    }
}

/// Maximum names in a list.
const MAX_NAMES: usize = 10;

/// Text of the error about the parts of one family that are not compared.
#[derive(Debug)]
pub(crate) struct NotComparedText<'r>(pub(super) IpFamily, pub(super) &'r NotCompared<'r>);

impl Review<'_> {
    /// Returns the error about what is not compared because of rules that cannot be read; `None` if
    /// all is.
    pub(crate) fn not_compared_text(&self) -> Option<NotComparedText<'_>> {
        let is_complete = self.not_compared.chains.is_empty();
        (!is_complete).then_some(NotComparedText(self.family, &self.not_compared))
    }
}

impl fmt::Display for NotComparedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(family, NotCompared { chains, ports, .. }) = self;
        let chains = chains.iter().map(|one| {
            let UnreadableChain {
                table,
                chain,
                rules,
            } = one;
            format!("{rules} of {table} {chain}")
        });
        write!(f, "{family} rules cannot be read: {}", listed(chains))?;
        if !ports.is_empty() {
            let ports = listed(ports.iter().map(ToString::to_string));
            write!(f, "; not compared because of them: {ports}")?;
        }
        Ok(())
    }
}

/// Returns the first names, and the number of the others.
pub(super) fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(MAX_NAMES);
    let shown: Vec<String> = names.take(MAX_NAMES).collect();
    match more {
        0 => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}
