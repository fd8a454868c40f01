//! Counts the rules that the first packet of a connection traverses.

use crate::rules::{TraceOutcome, Verdict};
use crate::ruleset::holds_dispatch_rules;

/// Rules that the kernel evaluates for the first packet of a connection, whether they match or
/// not. If rules choose by chance, those of the choice with the most. Rules in `unsure` are taken
/// not to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
