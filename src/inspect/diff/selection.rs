//! Restricts a comparison to the service ports that a query selects.
//!
//! Everything is compared first, so that differences that are not selected are counted.

use std::collections::{BTreeMap, BTreeSet};

use super::review::{NotSelected, Review};
use super::unified::RulesetText;
use crate::inspect::catalog::{Catalog, NoMatches, PortName, PortQuery, UnknownRules};
use crate::rules::RuleSet;
use crate::ruleset::ChainRole;

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
}

impl PortSelection {
    /// Reports whether a port of the Service is selected.
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
    /// Restricts the text to the selected service ports.
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
