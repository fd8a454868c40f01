//! Notes on stderr before tables: missing jumps, unreferenced chains, conflicts, quarantine.
//!
//! Rules do not show that changes of a Service are not applied; the health server of the proxy on
//! this node reports Services in quarantine.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use serde_json::Value;

use super::rows::RuleFindings;
use crate::cli::snapshot::RuleOrigin;
use crate::cli::snapshot::proxy_report::{self, is_name};
use crate::config::ServicesOutput;
use crate::inspect::catalog::{
    FrontendConflict, PortQuery, RequiredChain, RequiredJump, RulesetGap, UnknownRules, first_of,
};
use crate::net::IpFamily;

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
    if query.is_all() && matches!(output, ServicesOutput::Table | ServicesOutput::Wide) {
        for (family, chains) in findings.stale.as_ref().into_pairs() {
            text.push_str(&stale_note(family, chains));
        }
    }
    if matches!(output, ServicesOutput::Table | ServicesOutput::Wide) {
        note_conflicts(&mut text, findings, query);
    }
    text
}

fn note_conflicts(text: &mut String, findings: &RuleFindings, query: &PortQuery) {
    for (family, conflicts) in findings.conflicts.as_ref().into_pairs() {
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
    let names = first_of(chains.iter().map(ToString::to_string), MAX_CHAINS);
    match chains.len() {
        0 => String::new(),
        count => format!(
            "note: unreferenced chains (nat, {family}): {count}: {names}; a full sync deletes \
             those of no Service\n"
        ),
    }
}

/// Returns a line for each family with Services in quarantine, if the rules are the kernel's;
/// empty without an answer of the proxy.
pub(super) fn quarantine_note(origin: &RuleOrigin) -> String {
    let RuleOrigin::Live(_) = origin else {
        return String::new();
    };
    quarantine_note_of(&proxy_report::livez())
}

fn quarantine_note_of(json: &str) -> String {
    let families = proxy_report::of_families(json, "quarantinedServices").into_iter();
    let notes = families.filter_map(|(family, quarantined)| {
        let count = quarantined.get("count")?.as_u64()?;
        let names = quarantined.get("names")?.as_array()?.iter();
        let names = names.filter_map(Value::as_str).filter(|name| is_name(name));
        let names: Vec<&str> = names.collect();
        let more = if count > names.len() as u64 {
            ", ..."
        } else {
            ""
        };
        let names = names.join(", ");
        Some(format!(
            "note: quarantined because they make restores fail ({family}): {count}: \
             {names}{more}; their changes are not applied, see the log of the proxy\n"
        ))
    });
    notes.collect()
}

/// Returns the rules that were read.
fn which(origin: &RuleOrigin, unknown: UnknownRules) -> String {
    match unknown.unreadable {
        0 => origin.to_string(),
        count => format!("{origin} among the rules that can be read; {count} cannot"),
    }
}

/// Explains an empty list on stderr; it is not a failure.
pub(super) fn print_empty(origin: &RuleOrigin, query: &PortQuery, unknown: UnknownRules) {
    let is_filtered = !query.is_all();
    let which = if is_filtered { "such " } else { "" };
    let mut text = format!(
        "no {which}service ports in {}\n",
        self::which(origin, unknown)
    );
    if let (RuleOrigin::Live(_), false) = (origin, is_filtered) {
        text.push_str(
            "hint: check that a kube-proxy in mode iptables runs here, with this backend\n",
        );
    }
    print(&text);
}

/// Prints notes on stderr.
pub(super) fn print(text: &str) {
    // Without stderr the text is lost, which is no reason to fail.
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
#[path = "tests/notes.rs"]
mod tests;
