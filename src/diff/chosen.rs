//! The part of a comparison that is about some service ports.
//!
//! Apart because everything is compared first, and what is not asked for is counted then: who looks
//! at one Service should know that others differ, too.

use std::collections::{BTreeMap, BTreeSet};

use super::part::Part;
use super::review::Review;
use super::sheet::Sheet;
use crate::catalog::{Asked, Catalog, Missing, PortName};
use crate::rules::RuleSet;

/// The service ports that are asked for, and their chains of the nat table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    ports: BTreeSet<PortName>,
    chains: BTreeSet<Box<str>>,
}

/// What differs and was not asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Other service ports.
    pub ports: BTreeSet<PortName>,
    /// Chains that belong to none.
    pub chains: usize,
}

impl Chosen {
    /// Those that any side of any family has; `None` if all are asked for.
    ///
    /// # Errors
    ///
    /// A name fits nothing.
    pub fn of(asked: &Asked, all: &[&RuleSet]) -> Result<Option<Self>, Missing> {
        if asked.is_all() {
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
        asked.check(&known)?;
        let ports: BTreeSet<PortName> = known
            .filter(|(port, numbers)| asked.fits(port, numbers))
            .map(|(port, _)| port.clone())
            .collect();
        chains.retain(|port, _| ports.contains(port));
        Ok(Some(Self {
            ports,
            chains: chains.into_values().flatten().collect(),
        }))
    }
}

impl Review<'_> {
    /// What of it is about these service ports. There is no restore of some of them.
    #[must_use]
    pub fn only(self, chosen: &Chosen) -> Self {
        let is_chosen = |name: &PortName| chosen.ports.contains(name);
        let (ports, others): (Vec<_>, Vec<_>) = self
            .ports
            .into_iter()
            .partition(|port| is_chosen(&port.name));
        Self {
            ports,
            left_out: LeftOut {
                ports: others.into_iter().map(|port| port.name).collect(),
                chains: self.set_up.len() + self.stale.len(),
            },
            set_up: Vec::new(),
            stale: Vec::new(),
            restore: None,
            ..self
        }
    }
}

impl Sheet<'_> {
    /// What of it is about these service ports.
    #[must_use]
    pub fn only(mut self, chosen: &Chosen) -> Self {
        let keys: BTreeSet<String> = chosen.ports.iter().map(ToString::to_string).collect();
        self.chains
            .retain_mut(|chain| match Part::of(chain.table, chain.name) {
                Part::Service => chosen.chains.contains(chain.name),
                // Other rules are in it on both sides: it neither comes nor goes.
                Part::Shared => {
                    chain.lists.retain(|(key, _)| keys.contains(key));
                    true
                }
                Part::SetUp | Part::Visited | Part::Foreign => false,
            });
        self
    }
}
