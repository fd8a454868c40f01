//! Finds parts of rules that may be of service ports and do not show of which.

use super::reach::dispatch_rules;
use crate::rules::{RuleSet, Table};
use crate::ruleset::{DispatchChain, KUBE_SERVICES};

/// Parts of rules that may be of service ports, and do not show of which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnknownRules {
    /// Rules that cannot be read.
    pub unreadable: usize,
    /// Rules of dispatch chains among these: each may be a frontend.
    pub unreadable_frontends: usize,
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
            families_without_nat: self.families_without_nat + other.families_without_nat,
        }
    }

    /// Reports whether the rules show all service ports.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
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
        families_without_nat: usize::from(
            rules.chain(Table::Nat, KUBE_SERVICES).is_none()
                && dispatch_rules(rules, DispatchChain::FilterServices)
                    .chain(dispatch_rules(rules, DispatchChain::FilterExternalServices))
                    .next()
                    .is_some(),
        ),
    }
}
