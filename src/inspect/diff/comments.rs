//! Restores comments that were removed from a dump or replaced in it, as anonymizing does.
//!
//! The names of service ports are in comments. The names of their chains are hashes of them, so
//! that a chain of the desired side names the service port of the same chain of the live side.

use std::collections::BTreeMap;

use super::dispatch_rules::dispatch_chains;
use super::edit::without_cosmetics;
use crate::inspect::catalog::{Catalog, PortName};
use crate::rules::{Rule, RuleSet, Table, Target};
use crate::ruleset::{ChainRole, PortComment};

/// Gives live rules the comments that the same rules have on the desired side, if a comment of the
/// live side has another name for the service port of a chain, or none. Returns the number of
/// these comments; with 0, nothing is changed.
pub(crate) fn restore_comments(live: &mut RuleSet, desired: &RuleSet) -> usize {
    let catalog = Catalog::read(desired);
    let owners = catalog.owners();
    let owner = |rule: &Rule| owners.get(rule.target_chain()?).copied();
    let dispatch = dispatch_chains(live, desired);
    let rules = dispatch.filter_map(|(table, chain)| live.chain(table, chain));
    let rules = rules.flat_map(|chain| &chain.rules);
    let is_altered =
        |rule: &&Rule| owner(rule).is_some_and(|owner| named(rule) != Some(owner.clone()));
    let altered = rules.filter(is_altered).count();
    if altered == 0 {
        return 0;
    }
    let known = KnownComments::of(desired);
    live.replace_comments(|table, chain, rule| {
        if let Some(comment) = known.of_rule(table, chain, rule) {
            return Some(comment.into());
        }
        if ChainRole::of(table, chain) != ChainRole::Dispatch {
            return None;
        }
        match (owner(rule), known.of_frontend(rule)) {
            (Some(owner), _) => Some(owner.name.clone()),
            (None, Some(port)) if rule.target_chain().is_none() => {
                let comment = PortComment::NoEndpoints.for_port(&port.name);
                Some(comment.to_string().into())
            }
            (None, _) => None,
        }
    });
    altered
}

fn named(rule: &Rule) -> Option<PortName> {
    PortName::of_dispatch_rule(rule).map(|(name, _)| name)
}

/// Comments of the desired side.
struct KnownComments<'a> {
    /// By table, chain, and rule without its comment.
    rules: BTreeMap<(Table, &'a str, Rule), &'a str>,
    /// Service ports by the packets that dispatch rules match.
    frontends: BTreeMap<Rule, PortName>,
}

impl<'a> KnownComments<'a> {
    fn of(desired: &'a RuleSet) -> Self {
        let mut known = Self {
            rules: BTreeMap::new(),
            frontends: BTreeMap::new(),
        };
        for table in Table::ALL {
            for (chain, rules) in desired.chains(table) {
                let rules = rules.rules.iter();
                rules.for_each(|rule| known.add(table, chain, rule));
            }
        }
        known
    }

    fn add(&mut self, table: Table, chain: &'a str, rule: &'a Rule) {
        let Some(comment) = rule.comment() else {
            return;
        };
        let key = (table, chain, without_cosmetics(rule));
        self.rules.insert(key, comment);
        if ChainRole::of(table, chain) == ChainRole::Dispatch {
            let port = named(rule).map(|port| (frontend(rule), port));
            self.frontends.extend(port);
        }
    }

    fn of_rule(&self, table: Table, chain: &str, rule: &Rule) -> Option<&'a str> {
        let key = (table, chain, without_cosmetics(rule));
        self.rules.get(&key).copied()
    }

    fn of_frontend(&self, rule: &Rule) -> Option<&PortName> {
        self.frontends.get(&frontend(rule))
    }
}

/// Returns the conditions of a rule.
fn frontend(rule: &Rule) -> Rule {
    Rule {
        target: None::<Target>,
        ..without_cosmetics(rule)
    }
}
