//! Follows jumps from the built-in chains to frontends, and from frontends to endpoints.
//!
//! A rule that cannot be read may be the one that leads on: nothing is reported as missing if such
//! a rule is on the way.

use std::collections::BTreeSet;

use crate::rules::{Match, Rule, RuleSet, Table, Target};
use crate::ruleset::{ChainKind, is_service_chain};

/// Reports whether jumps lead from one chain to another, directly or through third-party chains.
pub(super) fn has_path(rules: &RuleSet, from: &str, to: &str) -> bool {
    let mut waiting = vec![from];
    let mut seen = BTreeSet::from([from]);
    while let Some(name) = waiting.pop() {
        if name == to {
            return true;
        }
        let own = rules
            .chain(Table::Nat, name)
            .map_or(&[][..], |chain| &chain.rules);
        if own.iter().any(Rule::is_unparsed) {
            return true;
        }
        let targets = own.iter().filter_map(Rule::target_chain);
        // Chains of a service port never lead back to a dispatch chain.
        let next = targets.filter(|target| !is_service_chain(target));
        waiting.extend(next.filter(|target| seen.insert(target)));
    }
    false
}

/// Reports whether packets from outside that enter `chain` of the nat table can reach a DNAT rule.
/// Without recursion: third-party chains may be nested ten thousand deep.
pub(super) fn leads_to_endpoint(rules: &RuleSet, chain: &str) -> bool {
    let mut waiting = vec![chain];
    let mut seen = BTreeSet::from([chain]);
    while let Some(name) = waiting.pop() {
        let chain = rules.chain(Table::Nat, name).into_iter();
        let is_external = matches!(
            ChainKind::of(name),
            Some(ChainKind::External | ChainKind::RetiredExternal)
        );
        for rule in chain.flat_map(|chain| &chain.rules) {
            if is_external && is_for_cluster_clients(rule) {
                continue;
            }
            match &rule.target {
                _ if rule.is_unparsed() => return true,
                Some(Target::Dnat { .. }) => return true,
                Some(Target::Other(target)) if &*target.name == "DNAT" => return true,
                Some(Target::Jump(next) | Target::Goto(next)) if seen.insert(next) => {
                    waiting.push(next);
                }
                _ => {}
            }
            if is_final(rule) {
                break;
            }
        }
    }
    false
}

/// Reports whether a rule of a chain for external traffic matches only Pods or this node, to which
/// policy Local does not apply.
fn is_for_cluster_clients(rule: &Rule) -> bool {
    let matches_node = |one: &Match| {
        matches!(
            one,
            Match::AddressType {
                source: Some(_),
                ..
            }
        )
    };
    rule.source.is_some() || rule.in_interface.is_some() || rule.matches.iter().any(matches_node)
}

/// Reports whether no packet gets past a rule.
fn is_final(rule: &Rule) -> bool {
    let is_terminating = matches!(
        rule.target,
        Some(Target::Return | Target::Accept | Target::Drop | Target::Reject(_) | Target::Goto(_))
    );
    is_terminating && is_unconditional(rule)
}

fn is_unconditional(rule: &Rule) -> bool {
    let Rule {
        source,
        destination,
        in_interface,
        out_interface,
        protocol,
        matches,
        target: _,
    } = rule;
    let mut matches = matches.iter();
    source.is_none()
        && destination.is_none()
        && in_interface.is_none()
        && out_interface.is_none()
        && protocol.is_none()
        && matches.all(|one| matches!(one, Match::Comment(_)))
}
