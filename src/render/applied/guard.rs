//! Checks and repairs the rules that every Service depends on: jumps, canaries and fixed chains.
//!
//! The check is a sample: a flush or deletion of a table removes some of them.
//!
//! Differs from upstream: there only an empty canary chain of the mangle table is checked, so that
//! a flush of the nat table, or one that deletes no chains, goes unnoticed for up to an hour. In
//! exchange every sync writes the fixed chains again there.

use std::collections::BTreeSet;

use super::live::Live;
use crate::render::fixed_chains;
use crate::render::options::Options;
use crate::render::service::{write_chain_lines, write_line};
use crate::rules::{Rule, Table};
use crate::ruleset::{
    JUMPS, Jump, KUBE_FIREWALL, KUBE_FORWARD, KUBE_MARK_MASQ, KUBE_POSTROUTING, KUBE_PROXY_CANARY,
};

/// Returns the chains of `table` to list for a check, the proxy's first: a program that ends at a
/// third-party rule has printed these by then.
pub fn guarded_chains(table: Table, options: &Options) -> Vec<&'static str> {
    let mut chains = vec![KUBE_PROXY_CANARY];
    chains.extend(fixed_chain_names(table, options));
    for jump in JUMPS.iter().filter(|jump| jump.table == table) {
        if !chains.contains(&jump.from) {
            chains.push(jump.from);
        }
    }
    chains
}

/// Condition of the guarded chains of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuardState {
    /// The canary is missing, or all jumps: the table was flushed.
    pub is_flushed: bool,
    /// Missing jumps.
    pub missing: Vec<&'static Jump>,
    /// Fixed chains that lack rules of the proxy.
    pub incomplete: Vec<&'static str>,
    /// Fixed chains that hold all rules of the proxy, and third-party ones. Other chains are not
    /// affected.
    pub edited: Vec<&'static str>,
    /// Jumps that may stand after a rule that cannot be printed.
    pub unseen: Vec<&'static Jump>,
}

impl GuardState {
    /// Compares a listing of the guarded chains with the rules that a restore with `options`
    /// writes. The chains in `cut` are listed up to their first unprintable rule.
    pub fn of(table: Table, listing: &str, cut: &[String], options: &Options) -> Self {
        let is_cut = |chain: &str| cut.iter().any(|name| name == chain);
        let written = written(table, options);
        let mut state = Self {
            is_flushed: !is_cut(KUBE_PROXY_CANARY) && !has_canary(listing),
            ..Self::default()
        };
        for chain in fixed_chain_names(table, options) {
            if holds(chain, listing, &written, is_cut(chain)) {
                continue;
            }
            // No rule of the proxy is unprintable: a chain that is cut has a third-party rule.
            if is_cut(chain) || keeps_ours(chain, listing, &written) {
                state.edited.push(chain);
            } else {
                state.incomplete.push(chain);
            }
        }
        let mut live = Live::default();
        live.read(table, listing);
        for jump in live.missing_jumps(table) {
            if is_cut(jump.from) {
                state.unseen.push(jump);
            } else {
                state.missing.push(jump);
            }
        }
        let jumps = JUMPS.iter().filter(|jump| jump.table == table).count();
        state.is_flushed |= jumps > 0 && state.missing.len() == jumps;
        state
    }
}

/// Reports whether `listing`, the rules of the guarded chains, equals the rules that a restore
/// with `options` writes.
pub fn is_intact(table: Table, listing: &str, options: &Options) -> bool {
    GuardState::of(table, listing, &[], options) == GuardState::default()
}

/// Reports whether the guarded chains hold exactly the rules of the proxy. [`is_intact`] tolerates
/// rules after the proxy's in `KUBE-FIREWALL`: kubelets before 1.28 append one of their own, and
/// would do so again each time it is deleted.
pub(super) fn is_exact(table: Table, listing: &str, options: &Options) -> bool {
    let has_others = |chain: &&str| {
        let live = rules_of(chain, listing).count();
        live > rules_of(chain, &written(table, options)).count()
    };
    is_intact(table, listing, options) && !fixed_chain_names(table, options).iter().any(has_others)
}

/// Returns a payload that writes these fixed chains again, inserts these jumps at the top of their
/// chains, and changes nothing else.
pub fn repair(
    chains: &BTreeSet<(Table, &'static str)>,
    jumps: &[&'static Jump],
    options: &Options,
) -> Vec<u8> {
    let mut payload = Vec::new();
    for table in Table::ALL {
        let of_table = chains.iter().filter(|(of, _)| *of == table);
        let names: Vec<&str> = of_table.map(|(_, chain)| *chain).collect();
        let mut lost = JUMPS
            .iter()
            .filter(|jump| jump.table == table && jumps.contains(jump))
            .peekable();
        if names.is_empty() && lost.peek().is_none() {
            continue;
        }
        write_line(&mut payload, &["*", table.as_str()]);
        write_chain_lines(&mut payload, &names);
        for rule in written(table, options).lines() {
            let chain = rule
                .strip_prefix("-A ")
                .and_then(|rule| rule.split(' ').next());
            if chain.is_some_and(|chain| names.contains(&chain)) {
                write_line(&mut payload, &[rule]);
            }
        }
        for jump in lost {
            write_line(&mut payload, &["-I ", jump.from, " ", jump.rule]);
        }
        write_line(&mut payload, &["COMMIT"]);
    }
    payload
}

/// Returns the rule of `KUBE-FIREWALL` that keeps other hosts from reaching localhost, without
/// `-A KUBE-FIREWALL`; `None` if these options need none.
pub fn localnet_guard(options: &Options) -> Option<String> {
    let written = written(Table::Filter, options);
    let mut lines = written.lines();
    let rule = lines.find_map(|line| line.strip_prefix("-A KUBE-FIREWALL "))?;
    Some(rule.to_owned())
}

fn has_canary(listing: &str) -> bool {
    let canary = format!("-N {KUBE_PROXY_CANARY}");
    listing.lines().any(|line| line == canary)
}

/// Reports whether a chain holds the written rules and no others, except those after them in
/// `KUBE-FIREWALL`.
fn holds(chain: &str, listing: &str, written: &str, is_cut: bool) -> bool {
    let mut live = rules_of(chain, listing);
    let has_ours = rules_of(chain, written).all(|rule| live.next() == Some(rule));
    has_ours && (chain == KUBE_FIREWALL || (!is_cut && live.next().is_none()))
}

/// Reports whether all written rules are in a chain, in their order, with any rules between them.
fn keeps_ours(chain: &str, listing: &str, written: &str) -> bool {
    let mut live = rules_of(chain, listing);
    rules_of(chain, written).all(|ours| live.any(|rule| rule == ours))
}

/// Returns the fixed chains of a table.
fn fixed_chain_names(table: Table, options: &Options) -> &'static [&'static str] {
    match table {
        Table::Filter if fixed_chains::fills_firewall(options) => &[KUBE_FORWARD, KUBE_FIREWALL],
        Table::Filter => &[KUBE_FORWARD],
        Table::Nat => &[KUBE_POSTROUTING, KUBE_MARK_MASQ],
        Table::Mangle => &[],
    }
}

/// Returns the rules that a full restore writes into the fixed chains.
fn written(table: Table, options: &Options) -> String {
    let mut buf = Vec::new();
    match table {
        Table::Filter => fixed_chains::write_filter(&mut buf, options),
        Table::Nat => fixed_chains::write_nat(&mut buf, options),
        Table::Mangle => {}
    }
    String::from_utf8_lossy(&buf).into_owned()
}

/// Returns the rules of one chain; `None` for one that cannot be parsed, which is no rule of the
/// proxy.
fn rules_of<'a>(chain: &'a str, text: &'a str) -> impl Iterator<Item = Option<Rule>> + 'a {
    text.lines().filter_map(move |line| {
        let (found, spec) = line.strip_prefix("-A ")?.split_once(' ')?;
        (found == chain).then(|| spec.parse().ok())
    })
}
