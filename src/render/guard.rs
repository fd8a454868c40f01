//! Checks whether our rules are still in the kernel, and only ours.
//!
//! The check is a sample: the jumps that everything depends on, a canary chain in each table, and
//! every rule of the chains that are the same whatever the Services are. A flush or deletion of a
//! table removes some of them.
//!
//! Differs from upstream: there an empty canary chain of the mangle table is all that is checked,
//! so that a flush of the nat table, or one that deletes no chains, goes unseen for up to an hour.
//! In exchange every sync writes the fixed chains anew there.

use std::collections::BTreeSet;

use super::base::{self, CANARY, FIREWALL};
use super::full_text::{headers, line};
use super::jump::{JUMPS, Jump};
use super::live::Live;
use super::options::Options;
use crate::rules::{Rule, Table};

/// The chains of `table` to list, ours first: a program that ends at a third-party rule has
/// printed ours by then.
pub fn guarded_chains(table: Table, options: &Options) -> Vec<&'static str> {
    let mut chains = vec![CANARY];
    chains.extend(fixed_chains(table, options));
    for jump in JUMPS.iter().filter(|jump| jump.table == table) {
        if !chains.contains(&jump.from) {
            chains.push(jump.from);
        }
    }
    chains
}

/// What to think of rules behind ours in `KUBE-FIREWALL`. Kubelets before 1.28 append one of their
/// own, and would do so again for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guests {
    Tolerated,
    Refused,
}

/// Condition of the guarded chains of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuardState {
    /// Chains of ours are missing, or all of our jumps: the table was flushed.
    pub is_flushed: bool,
    /// Jumps of ours that are missing.
    pub missing: Vec<&'static Jump>,
    /// Fixed chains that lack rules of ours.
    pub incomplete: Vec<&'static str>,
    /// Fixed chains that hold all of our rules and third-party ones. Nothing else suffers from it.
    pub edited: Vec<&'static str>,
    /// Jumps that may stand behind a rule that cannot be printed.
    pub unseen: Vec<&'static Jump>,
}

impl GuardState {
    /// Compares a listing of the guarded chains with what a restore with `options` leaves there.
    /// The chains named by `cut` are listed up to their first unprintable rule.
    pub fn of(table: Table, listing: &str, cut: &[String], options: &Options) -> Self {
        let is_cut = |chain: &str| cut.iter().any(|name| name == chain);
        let written = written(table, options);
        let mut state = Self {
            is_flushed: !is_cut(CANARY) && !has_canary(listing),
            ..Self::default()
        };
        for chain in fixed_chains(table, options) {
            if holds(chain, listing, &written, is_cut(chain)) {
                continue;
            }
            // None of ours is unprintable: whatever else is in the chain, a third-party rule is.
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

/// Reports whether `listing`, the rules of those chains, is what a restore with `options` leaves.
pub fn is_intact(table: Table, listing: &str, options: &Options) -> bool {
    GuardState::of(table, listing, &[], options) == GuardState::default()
}

/// Reports whether the chains hold exactly these rules.
pub(super) fn is_ours(table: Table, listing: &str, options: &Options, guests: Guests) -> bool {
    let has_guests = |chain: &&str| {
        let others = rules_of(chain, listing).count();
        others > rules_of(chain, &written(table, options)).count()
    };
    is_intact(table, listing, options)
        && (guests == Guests::Tolerated || !fixed_chains(table, options).iter().any(has_guests))
}

/// Payload that writes these fixed chains anew, puts these jumps on top of their chains, and
/// touches nothing else.
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
        line(&mut payload, &["*", table.as_str()]);
        headers(&mut payload, &names);
        for rule in written(table, options).lines() {
            let chain = rule
                .strip_prefix("-A ")
                .and_then(|rule| rule.split(' ').next());
            if chain.is_some_and(|chain| names.contains(&chain)) {
                line(&mut payload, &[rule]);
            }
        }
        for jump in lost {
            line(&mut payload, &["-I ", jump.from, " ", jump.rule]);
        }
        line(&mut payload, &["COMMIT"]);
    }
    payload
}

/// The rule of `KUBE-FIREWALL` that keeps neighbors from what listens on localhost, spelled as
/// behind `-A KUBE-FIREWALL`; `None` if these options need none.
pub fn localnet_guard(options: &Options) -> Option<String> {
    let written = written(Table::Filter, options);
    let mut lines = written.lines();
    let rule = lines.find_map(|line| line.strip_prefix("-A KUBE-FIREWALL "))?;
    Some(rule.to_owned())
}

fn has_canary(listing: &str) -> bool {
    let canary = format!("-N {CANARY}");
    listing.lines().any(|line| line == canary)
}

/// Reports whether a chain holds what was written and nothing else, rules behind ours in
/// `KUBE-FIREWALL` aside.
fn holds(chain: &str, listing: &str, written: &str, is_cut: bool) -> bool {
    let mut held = rules_of(chain, listing);
    let has_ours = rules_of(chain, written).all(|rule| held.next() == Some(rule));
    has_ours && (chain == FIREWALL || (!is_cut && held.next().is_none()))
}

/// Reports whether all of our rules are in a chain, in their order, whatever stands between them.
fn keeps_ours(chain: &str, listing: &str, written: &str) -> bool {
    let mut held = rules_of(chain, listing);
    rules_of(chain, written).all(|ours| held.any(|rule| rule == ours))
}

/// The chains whose rules depend on options alone.
fn fixed_chains(table: Table, options: &Options) -> &'static [&'static str] {
    match table {
        Table::Filter if base::fills_firewall(options) => &["KUBE-FORWARD", FIREWALL],
        Table::Filter => &["KUBE-FORWARD"],
        Table::Nat => &["KUBE-POSTROUTING", "KUBE-MARK-MASQ"],
        Table::Mangle => &[],
    }
}

/// What a full restore writes into them.
fn written(table: Table, options: &Options) -> String {
    let mut buf = Vec::new();
    match table {
        Table::Filter => base::write_filter(&mut buf, options),
        Table::Nat => base::write_nat(&mut buf, options),
        Table::Mangle => {}
    }
    String::from_utf8_lossy(&buf).into_owned()
}

/// The rules of one chain. One that cannot be read is `None`: none of ours is such a rule.
fn rules_of<'a>(chain: &'a str, text: &'a str) -> impl Iterator<Item = Option<Rule>> + 'a {
    text.lines().filter_map(move |line| {
        let (found, spec) = line.strip_prefix("-A ")?.split_once(' ')?;
        (found == chain).then(|| spec.parse().ok())
    })
}
