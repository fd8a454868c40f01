//! Finds parts of rules that may be of service ports and do not show of which: rules that cannot be
//! read, and names that were replaced in a dump.

use std::collections::{BTreeMap, BTreeSet};

use super::name::PortName;
use super::reach::dispatch_rules;
use crate::rules::{RuleSet, Table};
use crate::ruleset::{DispatchChain, KUBE_SERVICES, ServiceChain};

/// Parts of rules that may be of service ports, and do not show of which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnknownRules {
    /// Rules that cannot be read.
    pub unreadable: usize,
    /// Rules of dispatch chains among these: each may be a frontend.
    pub unreadable_frontends: usize,
    /// Service ports whose names are not in the rules.
    pub unnamed: usize,
    /// IP families whose nat table, with nearly all rules of Services, was not read, although
    /// their filter table was.
    pub families_without_nat: usize,
}

impl UnknownRules {
    /// Adds those of another family.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            unreadable: self.unreadable + other.unreadable,
            unreadable_frontends: self.unreadable_frontends + other.unreadable_frontends,
            unnamed: self.unnamed + other.unnamed,
            families_without_nat: self.families_without_nat + other.families_without_nat,
        }
    }

    /// Reports whether the rules show all service ports.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// Names that stand for several service ports, because they were replaced in the dump.
pub(super) type RedactedNames = BTreeSet<PortName>;

/// Returns the names with chains of different hashes: a service port has one hash.
pub(super) fn redacted_names(rules: &RuleSet) -> RedactedNames {
    let mut hashes: BTreeMap<PortName, PortName> = BTreeMap::new();
    let mut redacted = RedactedNames::new();
    for chain in [DispatchChain::NatServices, DispatchChain::NatNodePorts] {
        for rule in dispatch_rules(rules, chain) {
            let Some((name, _)) = PortName::of_dispatch_rule(rule) else {
                continue;
            };
            // Names that tests and other programs make up have no hashes.
            let chain = rule.target_chain().and_then(ServiceChain::parse);
            let Some(by_hash) = chain.and_then(|_| PortName::of_chain(rule)) else {
                continue;
            };
            let first = hashes
                .entry(name.clone())
                .or_insert_with(|| by_hash.clone());
            if *first != by_hash {
                redacted.insert(name);
            }
        }
    }
    redacted
}

/// Counts the rules that cannot be read.
pub(super) fn unknown_rules(rules: &RuleSet) -> UnknownRules {
    let dispatch = [
        DispatchChain::NatServices,
        DispatchChain::NatNodePorts,
        DispatchChain::FilterServices,
        DispatchChain::FilterExternalServices,
    ];
    let frontends = dispatch
        .into_iter()
        .flat_map(|chain| dispatch_rules(rules, chain));
    UnknownRules {
        unreadable: rules.unparsed_rules().count(),
        unreadable_frontends: frontends.filter(|rule| rule.is_unparsed()).count(),
        unnamed: 0,
        families_without_nat: usize::from(
            rules.chain(Table::Nat, KUBE_SERVICES).is_none()
                && dispatch_rules(rules, DispatchChain::FilterServices)
                    .chain(dispatch_rules(rules, DispatchChain::FilterExternalServices))
                    .next()
                    .is_some(),
        ),
    }
}
