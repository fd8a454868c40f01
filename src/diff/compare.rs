//! From two rulesets to the review.
//!
//! Apart from what each part of a ruleset is compared by: this only deals out the parts.

use super::chosen::LeftOut;
use super::part::{self, Part};
use super::port_rules::PortRules;
use super::review::{ChainReview, PortReview, Review, Verdict};
use super::{effects, set_up};
use crate::catalog::{Catalog, PortName};
use crate::net::IpFamily;
use crate::rules::{Chain, Rule, RuleSet, Table};

/// How `left`, which is, differs from `right`, which is desired.
pub fn compare<'a>(family: IpFamily, left: &'a RuleSet, right: &'a RuleSet) -> Review<'a> {
    let catalogs = (Catalog::read(left), Catalog::read(right));
    let mut port_rules = PortRules::default();
    let mut stale = Vec::new();
    port_rules.compare_shared(left, right);
    let owners = (catalogs.0.owners(), catalogs.1.owners());
    let mut names = part::names(left, right, Table::Nat);
    names.retain(|name| Part::of(Table::Nat, name) == Part::Service);
    for name in names {
        let Some(review) = chain(left, right, name) else {
            continue;
        };
        match owners.1.get(name).or_else(|| owners.0.get(name)) {
            Some(owner) => port_rules.add(owner, review),
            None => stale.push(ChainReview {
                is_cosmetic: true,
                ..review
            }),
        }
    }
    let ports = port_rules.into_ports();
    Review {
        family,
        ports: ports
            .map(|(name, chains)| port(&catalogs, name, chains))
            .collect(),
        set_up: set_up::compare(left, right),
        stale,
        foreign: set_up::count_foreign(left, right),
        left_out: LeftOut::default(),
        restore: None,
    }
}

fn chain<'a>(left: &'a RuleSet, right: &'a RuleSet, name: &'a str) -> Option<ChainReview<'a>> {
    let chains = (left.chain(Table::Nat, name), right.chain(Table::Nat, name));
    if chains.0 == chains.1 {
        return None;
    }
    let rules =
        |chain: Option<&'a Chain>| chain.map(|chain| chain.rules.iter().collect::<Vec<&Rule>>());
    let (left, right) = (rules(chains.0), rules(chains.1));
    ChainReview::of((Table::Nat, name), left.as_deref(), right.as_deref())
}

fn port<'a>(
    catalogs: &(Catalog, Catalog),
    name: PortName,
    chains: Vec<ChainReview<'a>>,
) -> PortReview<'a> {
    let views = (catalogs.0.ports.get(&name), catalogs.1.ports.get(&name));
    let verdict = match views {
        (None, Some(_)) => Verdict::Appears,
        (Some(_), None) => Verdict::Disappears,
        _ if chains.iter().all(|chain| chain.is_cosmetic) => Verdict::Cosmetic,
        _ => Verdict::Changes,
    };
    let effects = match verdict {
        Verdict::Cosmetic => Vec::new(),
        _ => effects::effects(views.0, views.1, &chains),
    };
    PortReview {
        name,
        verdict,
        effects,
        chains,
    }
}
