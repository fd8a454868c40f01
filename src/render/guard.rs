//! What to look at to know that our rules are still in the kernel, and still ours.
//!
//! Apart because it is a sample: the jumps that everything depends on, a canary in each table, and
//! every rule of the chains that are the same whatever the Services are. Whoever flushes or deletes
//! a table takes some of them along.
//!
//! Differs from upstream: there an empty canary chain of the mangle table is all that is looked at,
//! so that a flush of the nat table, or one that deletes no chains, goes unseen for up to an hour.
//! In exchange every sync writes the fixed chains anew there.

use super::base::{self, CANARY, FIREWALL};
use super::jump::JUMPS;
use super::live::Live;
use super::options::Options;
use crate::rules::{Rule, Table};

/// The chains of `table` to list, ours first: a program that gives up at a rule of somebody else's
/// has said by then whether they are there.
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

/// Whether `listing`, the rules of those chains, is what a restore with `options` has left there.
pub fn is_intact(table: Table, listing: &str, options: &Options) -> bool {
    is_ours(table, listing, options, Guests::Tolerated)
}

/// The same, and perhaps nothing else.
pub(super) fn is_ours(table: Table, listing: &str, options: &Options, guests: Guests) -> bool {
    let mut live = Live::default();
    live.read(table, listing);
    let canary = format!("-N {CANARY}");
    let written = written(table, options);
    listing.lines().any(|line| line == canary)
        && live.missing_jumps(table).next().is_none()
        && fixed_chains(table, options)
            .iter()
            .all(|chain| holds(chain, listing, &written, guests))
}

/// Whether a chain holds what was written.
fn holds(chain: &str, listing: &str, written: &str, guests: Guests) -> bool {
    let mut held = rules_of(chain, listing);
    rules_of(chain, written).all(|rule| held.next() == Some(rule))
        && ((chain == FIREWALL && guests == Guests::Tolerated) || held.next().is_none())
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
