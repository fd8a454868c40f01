//! Part of the rules that is compared: service ports that a query selects, without what depends on
//! live rules that cannot be read.
//!
//! Everything is compared first, so that differences that are not selected are counted. The kernel
//! has the rules that cannot be read: a desired rule that seems to be missing may be one of them.

use std::collections::{BTreeMap, BTreeSet};

use super::edit::Edit;
use super::review::{ChainReview, MAX_NAMES, NotCompared, NotSelected, Review, UnreadableChain};
use super::unified::RulesetText;
use crate::inspect::catalog::{Catalog, NoMatches, PortName, PortQuery, UnknownRules};
use crate::rules::{Rule, RuleSet, Table};
use crate::ruleset::ChainRole;
use crate::text::first_of;

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
fn depends_on_unreadable(edit: &Edit<&Rule>) -> bool {
    match edit {
        Edit::Kept(_) => false,
        Edit::Removed(rule) => rule.is_unparsed(),
        Edit::Added(_) => true,
    }
}

impl Review<'_> {
    /// Returns the error about what is not compared because of rules that cannot be read; `None` if
    /// all is.
    pub(crate) fn not_compared_text(&self) -> Option<String> {
        let NotCompared { chains, ports, .. } = &self.not_compared;
        if chains.is_empty() {
            return None;
        }
        let named = chains.iter();
        let named = named.map(|one| format!("{} of {} {}", one.rules, one.table, one.chain));
        let family = self.family;
        let mut text = format!(
            "{family} rules cannot be read: {}",
            first_of(named, MAX_NAMES)
        );
        if !ports.is_empty() {
            text += "; not compared because of them: ";
            text += &first_of(ports, MAX_NAMES);
        }
        Some(text)
    }
}

/// Selected service ports, and their chains of the nat table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSelection {
    ports: BTreeSet<PortName>,
    chains: BTreeSet<Box<str>>,
}

impl PortSelection {
    /// Selects the service ports that match a query on any side of any IP family; `None` if the
    /// query is for all.
    ///
    /// # Errors
    ///
    /// A name of the query has no match.
    pub fn of(query: &PortQuery, all: &[&RuleSet]) -> Result<Option<Self>, NoMatches> {
        if query.is_all() {
            return Ok(None);
        }
        let mut numbers: BTreeMap<PortName, BTreeSet<u16>> = BTreeMap::new();
        let mut chains: BTreeMap<PortName, BTreeSet<Box<str>>> = BTreeMap::new();
        for rules in all {
            let catalog = Catalog::read(rules);
            for (chain, port) in catalog.owners() {
                chains.entry(port.clone()).or_default().insert(chain.into());
            }
            for (port, view) in catalog.ports {
                numbers.entry(port).or_default().extend(view.numbers());
            }
        }
        let known = numbers.iter();
        let known = known.map(|(port, numbers)| (port, numbers.iter().copied()));
        query.check(&known, UnknownRules::default())?;
        let ports: BTreeSet<PortName> = known
            .filter(|(port, numbers)| query.fits(port, numbers))
            .map(|(port, _)| port.clone())
            .collect();
        chains.retain(|port, _| ports.contains(port));
        Ok(Some(Self {
            ports,
            chains: chains.into_values().flatten().collect(),
        }))
    }

    pub(crate) fn has_service(&self, namespace: &str, service: &str) -> bool {
        let mut ports = self.ports.iter();
        ports.any(|port| (port.namespace(), port.service()) == (namespace, service))
    }
}

impl Review<'_> {
    /// Restricts the review to the selected service ports. Drops the restore, which is for all.
    #[must_use]
    pub fn only(self, selection: &PortSelection) -> Self {
        let ports = self.ports.into_iter();
        let (ports, others): (Vec<_>, Vec<_>) =
            ports.partition(|port| selection.ports.contains(&port.name));
        let mut not_compared = self.not_compared;
        not_compared
            .ports
            .retain(|port| selection.ports.contains(port));
        // In a dispatch chain, the unreadable rules may be those of a selected service port.
        not_compared.chains.retain(|one| {
            let is_dispatch = ChainRole::of(one.table, one.chain) == ChainRole::Dispatch;
            selection.chains.contains(one.chain) || is_dispatch && !not_compared.ports.is_empty()
        });
        Self {
            ports,
            not_compared,
            not_selected: NotSelected {
                ports: others.into_iter().map(|port| port.name).collect(),
                chains: self.fixed.len() + self.stale.len(),
            },
            fixed: Vec::new(),
            stale: Vec::new(),
            restore: None,
            ..self
        }
    }
}

impl RulesetText<'_> {
    #[must_use]
    pub fn only(mut self, selection: &PortSelection) -> Self {
        let keys: BTreeSet<String> = selection.ports.iter().map(ToString::to_string).collect();
        self.chains
            .retain_mut(|chain| match ChainRole::of(chain.table, chain.name) {
                ChainRole::Service | ChainRole::Tree => selection.chains.contains(chain.name),
                // Kept without selected rules: those of other service ports keep it on both sides.
                ChainRole::Dispatch => {
                    chain.lists.retain(|(key, _)| keys.contains(key));
                    true
                }
                ChainRole::Fixed | ChainRole::BuiltIn | ChainRole::ThirdParty => false,
            });
        self
    }
}
