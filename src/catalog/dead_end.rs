//! Whether a chain leads on to an endpoint.
//!
//! Apart from [`reach`](super::reach), which looks at the way to a service port: this is the way
//! behind it, which somebody may have emptied, too.

use std::collections::BTreeSet;

use crate::rules::{Match, Rule, RuleSet, Table, Target};

/// Whether whatever enters by `chain` of the nat table is sent to no endpoint.
pub(super) fn is_dead_end(rules: &RuleSet, chain: &str) -> bool {
    !leads_on(rules, chain, &mut BTreeSet::new())
}

/// Rules behind one that ends everything do not count.
fn leads_on<'r>(rules: &'r RuleSet, name: &'r str, seen: &mut BTreeSet<&'r str>) -> bool {
    if !seen.insert(name) {
        return false;
    }
    let chain = rules.chain(Table::Nat, name).into_iter();
    for rule in chain.flat_map(|chain| &chain.rules) {
        match &rule.target {
            Some(Target::Dnat { .. }) => return true,
            Some(Target::Jump(next) | Target::Goto(next)) if leads_on(rules, next, seen) => {
                return true;
            }
            Some(
                Target::Return
                | Target::Accept
                | Target::Drop
                | Target::Reject(_)
                | Target::Goto(_),
            ) if is_unconditional(rule) => return false,
            _ => {}
        }
    }
    false
}

fn is_unconditional(rule: &Rule) -> bool {
    let asks_nothing = |one: &Match| matches!(one, Match::Comment(_));
    let Rule {
        source,
        destination,
        in_interface,
        out_interface,
        protocol,
        matches,
        target: _,
    } = rule;
    source.is_none()
        && destination.is_none()
        && in_interface.is_none()
        && out_interface.is_none()
        && protocol.is_none()
        && matches.iter().all(asks_nothing)
}
