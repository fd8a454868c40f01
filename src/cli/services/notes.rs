//! Lines on stderr: notes before a table on missing jumps, unreferenced chains, conflicts and
//! quarantine, and the number of service ports after it.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use super::rows::{Row, RuleFindings};
use crate::cli::snapshot::{RuleOrigin, ServiceNames};
use crate::config::ServicesOutput;
use crate::inspect::catalog::{
    FrontendConflict, PortQuery, RequiredChain, RequiredJump, RulesetGap, UnknownRules,
};
use crate::net::{IpFamily, PerFamily};
use crate::status::ServiceCondition;
use crate::text::first_of;

/// Maximum chains that are named.
const MAX_CHAINS: usize = 3;

/// Maximum conflicts of a family that are named; more are counted.
const MAX_CONFLICTS: usize = 10;

/// Returns notes on missing jumps, for every query, and on conflicts and unreferenced chains that
/// the output itself does not list.
pub(super) fn note(findings: &RuleFindings, query: &PortQuery, output: ServicesOutput) -> String {
    let mut text = String::new();
    for (family, gap) in findings.gaps() {
        let _ = writeln!(text, "note: {gap} (nat, {family}): {}", gap.consequence());
    }
    let mut gaps = findings.gaps().map(|(_, gap)| gap);
    text.push_str(match gaps.next() {
        None => "",
        // A restart adds none either while the node has no such address.
        Some(RulesetGap::Jump(RequiredJump::NodePorts)) => {
            "hint: check that the node has an address in --nodeport-addresses: deltaproxy adds the \
             jump when it gets one, kube-proxy with its next sync\n"
        }
        Some(RulesetGap::Jump(_)) => {
            "hint: restart the proxy, whose first full sync restores the jump\n"
        }
        Some(
            RulesetGap::NoChain(RequiredChain::MarkDrop)
            | RulesetGap::NoEffect(RequiredChain::MarkDrop),
        ) => "hint: restart kubelet, which makes the chain\n",
        Some(RulesetGap::NoChain(_) | RulesetGap::NoEffect(_)) => {
            "hint: restart the proxy, whose first full sync restores the chain\n"
        }
    });
    if query.is_all() && output.is_table() {
        for (family, chains) in findings.stale.pairs() {
            text.push_str(&stale_note(family, chains));
        }
    }
    if output.is_table() {
        note_conflicts(&mut text, findings, query);
    }
    text
}

fn note_conflicts(text: &mut String, findings: &RuleFindings, query: &PortQuery) {
    for (family, conflicts) in findings.conflicts.pairs() {
        let all = findings.conflicts(query).filter(|(of, _)| *of == family);
        let mut named = 0;
        for (_, conflict) in all.take(MAX_CONFLICTS) {
            let FrontendConflict {
                loser, kind, owner, ..
            } = conflict;
            let _ = writeln!(
                text,
                "note: service port `{loser}` {rules} {kind} {conflict} ({family}): Service \
                 `{owner}` comes first",
                loser = loser.name,
                rules = conflict.rules.as_str()
            );
            named += 1;
        }
        if query.is_all() && named == MAX_CONFLICTS {
            let count = conflicts.count;
            let _ = writeln!(
                text,
                "note: frontends that several Services declare ({family}): {count}"
            );
        }
    }
}

/// Returns a line on unreferenced chains; empty without any.
fn stale_note(family: IpFamily, chains: &[Box<str>]) -> String {
    let names = first_of(chains, MAX_CHAINS);
    match chains.len() {
        0 => String::new(),
        count => format!(
            "note: unreferenced chains (nat, {family}): {count}: {names}; a full sync deletes \
             those of no Service\n"
        ),
    }
}

pub(super) fn quarantine_note(quarantined: &PerFamily<ServiceNames>) -> String {
    let families = quarantined.pairs();
    let notes = families.filter(|(_, ServiceNames(names))| !names.is_empty());
    let notes = notes.map(|(family, ServiceNames(names))| {
        let (count, names) = (names.len(), names.join(", "));
        format!(
            "note: quarantined because they make restores fail ({family}): {count}: {names}; their \
             changes are not applied, see the log of the proxy\n"
        )
    });
    notes.collect()
}

/// Returns a line with the number of service ports, how many are not ok, and their source.
pub(super) fn summary(
    origin: &RuleOrigin,
    query: &PortQuery,
    rows: &[Row],
    unknown: UnknownRules,
) -> String {
    let such = if query.is_all() { "" } else { "such " };
    let unreadable = match unknown.unreadable {
        0 => String::new(),
        count => format!(" among the rules that can be read; {count} cannot"),
    };
    match (rows.len(), not_ok(rows)) {
        (0, _) => format!("no {such}service ports in {origin}{unreadable}"),
        (1, 0) => format!("1 service port, ok, in {origin}"),
        (1, _) => format!("1 service port, not ok, in {origin}"),
        (count, 0) => format!("{count} service ports, all ok, in {origin}"),
        (count, not_ok) => format!("{count} service ports, {not_ok} not ok, in {origin}"),
    }
}

fn not_ok(rows: &[Row]) -> usize {
    let rows = rows.iter();
    rows.filter(|row| row.status() != ServiceCondition::Ok)
        .count()
}

/// Hint for a kernel without service ports.
pub(super) const NO_PORTS: &str =
    "hint: check that a kube-proxy in mode iptables runs here, with this backend\n";

pub(super) fn print(text: &str) {
    // Without stderr the text is lost, which is no reason to fail.
    let _ = io::stderr().write_all(text.as_bytes());
}
