//! Whether a chain leads on to an endpoint.
//!
//! Apart from [`reach`](super::reach), which looks at the way to a service port: this is the way
//! behind it, which somebody may have emptied, too.

use std::collections::BTreeSet;

use crate::rules::{Match, Rule, RuleSet, Table, Target};

/// Whether whatever enters by `chain` of the nat table is sent to no endpoint. Without recursion:
/// somebody's chains may lead to each other ten thousand deep.
pub(super) fn is_dead_end(rules: &RuleSet, chain: &str) -> bool {
    let mut waiting = vec![chain];
    let mut seen = BTreeSet::from([chain]);
    while let Some(name) = waiting.pop() {
        let chain = rules.chain(Table::Nat, name).into_iter();
        for rule in chain.flat_map(|chain| &chain.rules) {
            match &rule.target {
                Some(Target::Dnat { .. }) => return false,
                Some(Target::Jump(next) | Target::Goto(next)) if seen.insert(next) => {
                    waiting.push(next);
                }
                _ => {}
            }
            if ends(rule) {
                break;
            }
        }
    }
    true
}

/// Whether rules behind this one do not count.
fn ends(rule: &Rule) -> bool {
    let ends = matches!(
        rule.target,
        Some(Target::Return | Target::Accept | Target::Drop | Target::Reject(_) | Target::Goto(_))
    );
    ends && is_unconditional(rule)
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
