//! Renders both sides as ruleset text in a canonical order, and a unified diff of the two.
//!
//! Programs read both: `diff` compares the texts, and `patch` turns one into the other. So chains
//! are sorted, dispatch chains by service port, and third-party rules are left out: an order
//! without effect never makes a hunk, and a rule never matches one of another chain.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use super::compare::{dispatch_rules, has_rules_after_node_ports};
use super::review::{Edit, PortSelection, edits, paired};
use super::text::{green, red};
use crate::rules::{Rule, RuleSet, Table};
use crate::ruleset::ChainRole;

/// Compared part of a ruleset as text, chain by chain.
#[derive(Debug, Clone, Default)]
pub struct RulesetText<'a> {
    pub(super) chains: Vec<ChainText<'a>>,
}

#[derive(Debug, Clone)]
pub(super) struct ChainText<'a> {
    pub(super) table: Table,
    pub(super) name: &'a str,
    pub(super) lists: RuleLists<'a>,
}

/// Lists of rules whose order has an effect, by key. A dispatch chain has one for each service port
/// and one for other rules; other chains have one with an empty key.
type RuleLists<'a> = Vec<(String, Vec<&'a Rule>)>;

impl<'a> RulesetText<'a> {
    /// Takes the compared part of `rules`. `other` is the other side, and `desired` the desired one
    /// of the two: of built-in chains only desired rules are shown.
    pub fn of(rules: &'a RuleSet, other: &'a RuleSet, desired: &'a RuleSet) -> Self {
        let mut chains = Vec::new();
        for table in Table::ALL {
            for (name, _) in rules.chains(table) {
                let lists = match ChainRole::of(table, name) {
                    ChainRole::ThirdParty => None,
                    ChainRole::Dispatch => Some(lists_by_port(rules, table, name)),
                    ChainRole::Service | ChainRole::Tree | ChainRole::Fixed => {
                        Some(one_list(rules.rules_of(table, name)))
                    }
                    ChainRole::BuiltIn => {
                        let of = |rules: &'a RuleSet| rules.rules_of(table, name);
                        let own = desired_rules(of(rules), of(other), of(desired));
                        (!own.is_empty()).then(|| one_list(own))
                    }
                };
                let chain = lists.map(|lists| ChainText { table, name, lists });
                chains.extend(chain);
            }
        }
        Self { chains }
    }

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

fn one_list<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> RuleLists<'a> {
    vec![(String::new(), rules.into_iter().collect())]
}

/// Returns the desired rules of a built-in chain: those of both sides first, so that they have the
/// same order on both.
fn desired_rules<'a>(rules: &'a [Rule], other: &[Rule], desired: &[Rule]) -> Vec<&'a Rule> {
    let desired: BTreeSet<&Rule> = desired.iter().collect();
    let mut own: Vec<&Rule> = rules.iter().filter(|rule| desired.contains(rule)).collect();
    own.sort_by_key(|rule| (!other.contains(rule), *rule));
    own.dedup();
    own
}

fn lists_by_port<'a>(rules: &'a RuleSet, table: Table, chain: &str) -> RuleLists<'a> {
    let mut lists = dispatch_rules(rules, table, chain);
    // Rules without a service port sort last, as the jump to KUBE-NODEPORTS has to stand; first if
    // it does not, so that the difference shows.
    let key = if has_rules_after_node_ports(rules, table, chain) {
        ""
    } else {
        "~"
    };
    let unnamed = lists.remove(&None).unwrap_or_default();
    let ports = lists.into_iter().map(|(port, rules)| {
        let key = port.map(|port| port.to_string());
        (key.unwrap_or_default(), rules)
    });
    let mut lists: RuleLists<'a> = ports.chain([(key.to_owned(), unnamed)]).collect();
    lists.sort_by(|one, other| one.0.cmp(&other.0));
    lists
}

impl ChainText<'_> {
    /// Returns the line of the chain, as in `iptables-save` but with the table instead of counters.
    fn header(&self) -> String {
        format!(":{} [{}]", self.name, self.table)
    }

    /// Returns the line of a rule, as `iptables-save` prints it.
    fn line(&self, rule: &Rule) -> String {
        let line = format!("-A {} {rule}", self.name);
        line.trim_end().to_owned()
    }
}

impl fmt::Display for RulesetText<'_> {
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

/// Lines of context around a difference, as in `diff -u`.
const CONTEXT: usize = 3;

/// Writes the diff that turns `live` into `desired`, as `diff -u` does; nothing if they are equal.
/// The names are those of files that may hold the texts.
pub fn unified<'s, 'a>(
    out: &mut dyn Write,
    names: (&str, &str),
    live: &'s RulesetText<'a>,
    desired: &'s RulesetText<'a>,
) -> fmt::Result {
    let chains = |text: &'s RulesetText<'a>| {
        let chains = text.chains.iter();
        chains.map(|chain| ((chain.table, chain.name), Some(chain)))
    };
    let pairs = paired(chains(live), chains(desired)).into_values();
    let lines: Vec<Line<'_, '_>> = pairs.flat_map(|[old, new]| lines(old, new)).collect();
    let (mut numbers, mut done) = ((1, 1), 0);
    for (first, end) in hunks(&lines) {
        if done == 0 {
            writeln!(out, "{}", red(format_args!("--- {}", names.0)))?;
            writeln!(out, "{}", green(format_args!("+++ {}", names.1)))?;
        }
        advance(&mut numbers, lines.get(done..first).unwrap_or_default());
        let hunk = lines.get(first..end).unwrap_or_default();
        write_hunk(out, hunk, numbers)?;
        advance(&mut numbers, hunk);
        done = end;
    }
    Ok(())
}

/// A line and its chain; without a rule, the line of the chain itself.
type Line<'s, 'a> = Edit<(&'s ChainText<'a>, Option<&'a Rule>)>;

fn lines<'s, 'a>(
    old: Option<&'s ChainText<'a>>,
    new: Option<&'s ChainText<'a>>,
) -> Vec<Line<'s, 'a>> {
    let Some(chain) = old.or(new) else {
        return Vec::new();
    };
    let mut lines = vec![match (old, new) {
        (Some(_), None) => Edit::Removed((chain, None)),
        (None, Some(_)) => Edit::Added((chain, None)),
        _ => Edit::Kept((chain, None)),
    }];
    let lists = |chain: Option<&'s ChainText<'a>>| {
        let lists = chain.into_iter().flat_map(|chain| &chain.lists);
        lists.map(|(key, rules)| (key, rules.as_slice()))
    };
    let lists = paired(lists(old), lists(new));
    for [old, new] in lists.into_values() {
        lines.extend(edits(old, new).into_iter().map(|edit| match edit {
            Edit::Kept(rule) => Edit::Kept((chain, Some(rule))),
            Edit::Removed(rule) => Edit::Removed((chain, Some(rule))),
            Edit::Added(rule) => Edit::Added((chain, Some(rule))),
        }));
    }
    lines
}

/// Numbers of the next line on the live and the desired side.
type LineNumbers = (usize, usize);

fn advance(numbers: &mut LineNumbers, lines: &[Line<'_, '_>]) {
    let (old, new) = line_counts(lines);
    *numbers = (numbers.0 + old, numbers.1 + new);
}

fn line_counts(lines: &[Line<'_, '_>]) -> (usize, usize) {
    let added = lines.iter().filter(|line| matches!(line, Edit::Added(_)));
    let removed = lines.iter().filter(|line| matches!(line, Edit::Removed(_)));
    let (added, removed) = (added.count(), removed.count());
    (lines.len() - added, lines.len() - removed)
}

/// Writes a hunk. After the line numbers, its header names the chain of the first difference.
fn write_hunk(out: &mut dyn Write, hunk: &[Line<'_, '_>], numbers: LineNumbers) -> fmt::Result {
    let (old, new) = line_counts(hunk);
    let (old_first, new_first) = (first_line(numbers.0, old), first_line(numbers.1, new));
    write!(out, "@@ -{old_first},{old} +{new_first},{new} @@")?;
    let first = hunk.iter().find_map(|line| match line {
        Edit::Removed((chain, _)) | Edit::Added((chain, _)) => Some(chain),
        Edit::Kept(_) => None,
    });
    if let Some(ChainText { table, name, .. }) = first {
        write!(out, " {table} {name}")?;
    }
    writeln!(out)?;
    let text = |(chain, rule): &(&ChainText<'_>, Option<&Rule>)| {
        rule.map_or_else(|| chain.header(), |rule| chain.line(rule))
    };
    for line in hunk {
        match line {
            Edit::Kept(line) => writeln!(out, " {}", text(line))?,
            Edit::Removed(line) => {
                writeln!(out, "{}", red(format_args!("-{}", text(line))))?;
            }
            Edit::Added(line) => {
                writeln!(out, "{}", green(format_args!("+{}", text(line))))?;
            }
        }
    }
    Ok(())
}

/// Returns the line number for a hunk header: that of the line before if the hunk has no lines.
const fn first_line(number: usize, count: usize) -> usize {
    if count == 0 { number - 1 } else { number }
}

/// Returns the beginnings and ends of hunks: differences with their context, merged where contexts
/// touch.
fn hunks(lines: &[Line<'_, '_>]) -> Vec<(usize, usize)> {
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    let changed = lines.iter().enumerate();
    for (at, _) in changed.filter(|(_, line)| !matches!(line, Edit::Kept(_))) {
        let (first, end) = (
            at.saturating_sub(CONTEXT),
            (at + CONTEXT + 1).min(lines.len()),
        );
        match hunks.last_mut() {
            Some(last) if last.1 >= first => last.1 = end,
            _ => hunks.push((first, end)),
        }
    }
    hunks
}
