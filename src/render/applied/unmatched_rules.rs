//! Matches the rules of a dispatch chain in the kernel to those of Services.

use hashbrown::HashMap;

use super::live::LiveRule;
use crate::render::service::DispatchRule;
use crate::rules::RulesDigest;

/// Rules of a dispatch chain in the kernel that have not been matched to a Service yet.
pub(super) struct UnmatchedRules {
    /// All rules of the chain; `None` where one has been matched.
    rules: Vec<Option<LiveRule>>,
    /// Positions of rules by digest. Of equal rules the last one is matched first, because `-D`
    /// deletes the first one.
    positions: HashMap<RulesDigest, Vec<usize>>,
}

impl UnmatchedRules {
    /// Takes all rules of a chain, in their order.
    pub(super) fn new(rules: Vec<LiveRule>) -> Self {
        let mut positions: HashMap<RulesDigest, Vec<usize>> = HashMap::new();
        for (at, rule) in rules.iter().enumerate() {
            if rule.digest.is_known() {
                positions.entry(rule.digest).or_default().push(at);
            }
        }
        let rules = rules.into_iter().map(Some).collect();
        Self { rules, positions }
    }

    /// Removes an equal rule; returns its position, if the chain has one.
    pub(super) fn take(&mut self, rule: &[u8]) -> Option<usize> {
        let at = self
            .positions
            .get_mut(&RulesDigest::of_rule(spec(rule)))?
            .pop()?;
        self.rules.get_mut(at)?.take()?;
        Some(at)
    }

    /// Returns the rules that were not matched to a Service.
    pub(super) fn into_unmatched(self) -> impl Iterator<Item = LiveRule> {
        self.rules.into_iter().flatten()
    }
}

/// Returns a dispatch rule without blanks and newline around it.
pub(super) fn spec(rule: &[u8]) -> &str {
    str::from_utf8(rule).unwrap_or_default().trim()
}

/// Reports whether the rules of one Service, given as they were rendered and with their positions
/// in the kernel, are in their order there within each group. Equal rules are interchangeable: one
/// that is rendered several times, as for an external IP that is listed twice, has the last
/// position first.
pub(super) fn are_in_order<'r>(
    matched: impl Iterator<Item = (usize, &'r DispatchRule)> + Clone,
) -> bool {
    let mut pairs = matched.clone().zip(matched.clone().skip(1));
    let is_ascending =
        pairs.all(|((before, rule), (after, next))| rule.key != next.key || before < after);
    is_ascending || {
        let mut rendered: Vec<_> = matched.collect();
        rendered.sort_by_key(|(_, rule)| rule.key);
        let mut live = rendered.clone();
        live.sort_by_key(|(position, rule)| (rule.key, *position));
        let mut pairs = live.iter().zip(&rendered);
        pairs.all(|((_, live), (_, rendered))| live.text == rendered.text)
    }
}
