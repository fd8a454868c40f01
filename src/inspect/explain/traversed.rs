//! Counts the rules that the first packet of a connection traverses.

use std::fmt::Write as _;

use serde::Serialize;

use crate::rules::{TraceOutcome, Verdict};
use crate::ruleset::holds_dispatch_rules;

/// Rules that the kernel evaluates for the first packet of a connection, whether they match or
/// not. If rules choose by chance, those of the choice with the most. Rules in `unsure` are taken
/// not to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TraversedRules {
    /// Number of rules in all chains of all tables.
    pub rules: usize,
    /// Number of rules among them in dispatch chains (`KUBE-SERVICES`, `KUBE-NODEPORTS`,
    /// `KUBE-EXTERNAL-SERVICES`, `KUBE-PROXY-FIREWALL`) and the chains of their trees.
    pub dispatch_rules: usize,
}

impl TraversedRules {
    /// Returns the most rules of an outcome; `None` if a packet is not traced to its end.
    pub(super) fn of(outcomes: &[TraceOutcome<'_>]) -> Option<Self> {
        let is_unclear =
            |outcome: &TraceOutcome<'_>| matches!(outcome.verdict, Verdict::Unclear(_));
        if outcomes.iter().any(is_unclear) {
            return None;
        }
        outcomes.iter().map(Self::of_outcome).max()
    }

    fn of_outcome(outcome: &TraceOutcome<'_>) -> Self {
        let chains = outcome.traversed.iter();
        let of_dispatch = chains.filter(|one| {
            let table = one.table.of_proxy();
            table.is_some_and(|table| holds_dispatch_rules(table, one.chain))
        });
        Self {
            rules: outcome.traversed.iter().map(|one| one.rules).sum(),
            dispatch_rules: of_dispatch.map(|one| one.rules).sum(),
        }
    }
}

/// Renders `the first packet traverses 1,234 rules, 1,198 of them in dispatch chains`.
pub(super) fn text(traversed: TraversedRules) -> String {
    let TraversedRules {
        rules,
        dispatch_rules,
    } = traversed;
    let noun = if rules == 1 { "rule" } else { "rules" };
    let mut text = format!("the first packet traverses {} {noun}", grouped(rules));
    if dispatch_rules > 0 {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            ", {} of them in dispatch chains",
            grouped(dispatch_rules)
        );
    }
    text
}

/// Renders a number with a comma before each group of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_in_groups_of_three_digits() {
        let numbers = [0, 999, 1_000, 98_765, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "98,765", "1,234,567"]);
    }
}
