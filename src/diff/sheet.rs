//! One side as plain text, in an order that does not depend on who wrote the rules.
//!
//! Apart because the text is compared, by us or by a program of the user's: what means nothing must
//! not look like a difference. Chains are sorted, shared chains by service port, and what is not
//! ours is left out.

use std::collections::BTreeSet;
use std::fmt;

use super::part::Part;
use super::port_rules::shared;
use super::set_up;
use crate::rules::{Rule, RuleSet, Table};

/// The compared part of a ruleset, chain by chain.
#[derive(Debug, Clone, Default)]
pub struct Sheet<'a> {
    pub(super) chains: Vec<SheetChain<'a>>,
}

/// One chain.
#[derive(Debug, Clone)]
pub(super) struct SheetChain<'a> {
    pub(super) table: Table,
    pub(super) name: &'a str,
    /// Rules whose order counts: one list, or one for each service port and then the others.
    pub(super) lists: Lists<'a>,
}

impl<'a> Sheet<'a> {
    /// What there is to compare of `rules`, if `other` is the other side and `wanted` the desired
    /// one of the two: of chains that are not ours, only the rules that we want are shown.
    pub fn of(rules: &'a RuleSet, other: &'a RuleSet, wanted: &'a RuleSet) -> Self {
        let mut chains = Vec::new();
        for table in Table::ALL {
            for (name, _) in rules.chains(table) {
                let lists = match Part::of(table, name) {
                    Part::Foreign => None,
                    Part::Shared => Some(by_port(rules, table, name)),
                    Part::Service | Part::SetUp => Some(in_order(held(rules, table, name))),
                    Part::Visited => {
                        let of = |rules| held(rules, table, name);
                        let visited = visited(of(rules), of(other), of(wanted));
                        (!visited.is_empty()).then(|| in_order(visited))
                    }
                };
                let chain = lists.map(|lists| SheetChain { table, name, lists });
                chains.extend(chain);
            }
        }
        Self { chains }
    }
}

type Lists<'a> = Vec<(String, Vec<&'a Rule>)>;

fn held<'r>(rules: &'r RuleSet, table: Table, name: &str) -> &'r [Rule] {
    rules.chain(table, name).map_or(&[], |chain| &chain.rules)
}

fn in_order<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Lists<'a> {
    vec![(String::new(), rules.into_iter().collect())]
}

/// Our rules of a chain that we visit: those of both sides first, so that they are in one order.
fn visited<'a>(rules: &'a [Rule], other: &[Rule], wanted: &[Rule]) -> Vec<&'a Rule> {
    let is_wanted: BTreeSet<&Rule> = wanted.iter().collect();
    let mut ours: Vec<&Rule> = rules
        .iter()
        .filter(|rule| is_wanted.contains(rule))
        .collect();
    ours.sort_by_key(|rule| (!other.contains(rule), *rule));
    ours.dedup();
    ours
}

fn by_port<'a>(rules: &'a RuleSet, table: Table, name: &str) -> Lists<'a> {
    let mut lists = shared(rules, table, name);
    // What is about no service port comes last, as the way to NodePorts has to.
    let end = if set_up::is_overtaken(rules, table, name) {
        ""
    } else {
        "~"
    };
    let unnamed = lists.remove(&None).unwrap_or_default();
    let ports = lists.into_iter().map(|(port, rules)| {
        let key = port.map(|port| port.to_string());
        (key.unwrap_or_default(), rules)
    });
    let mut lists: Lists<'a> = ports.chain([(end.to_owned(), unnamed)]).collect();
    lists.sort_by(|left, right| left.0.cmp(&right.0));
    lists
}

impl SheetChain<'_> {
    /// As `iptables-save` would print the chain's line.
    pub(super) fn header(&self) -> String {
        format!(":{} [{}]", self.name, self.table)
    }

    /// As `iptables-save` would print a rule.
    pub(super) fn line(&self, rule: &Rule) -> String {
        let line = format!("-A {} {rule}", self.name);
        line.trim_end().to_owned()
    }
}

impl fmt::Display for Sheet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chain in &self.chains {
            writeln!(f, "{}", chain.header())?;
            for rule in chain.lists.iter().flat_map(|(_, rules)| rules) {
                writeln!(f, "{}", chain.line(rule))?;
            }
        }
        Ok(())
    }
}
