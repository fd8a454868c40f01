//! Orders and writes the rules of flat dispatch chains.

use std::cmp::Reverse;

use super::cost::DispatchOrder;
use crate::render::service::DispatchRule;

/// Returns groups of rules in this order; those of one group keep theirs.
pub(super) fn in_order<'r>(
    groups: impl Iterator<Item = &'r [DispatchRule]>,
    order: DispatchOrder,
) -> Vec<&'r [DispatchRule]> {
    let mut groups: Vec<_> = groups.collect();
    if order == DispatchOrder::ByTarget {
        groups.sort_by_key(|rules| Reverse(rules.first().map(|rule| target(&rule.text))));
    }
    groups
}

/// Returns the target of a rule: the last word, with the newline.
fn target(rule: &[u8]) -> &[u8] {
    rule.rsplit(|byte| *byte == b' ').next().unwrap_or_default()
}

pub(super) fn write_rules<'r>(
    buf: &mut Vec<u8>,
    command: &str,
    chain: &str,
    rules: impl Iterator<Item = &'r [u8]>,
) {
    for rule in rules {
        buf.extend_from_slice(command.as_bytes());
        buf.extend_from_slice(chain.as_bytes());
        buf.extend_from_slice(rule);
    }
}
