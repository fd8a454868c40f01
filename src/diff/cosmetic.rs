//! Rules without what no packet can tell.
//!
//! Apart because here is the whole list of what counts as cosmetic.

use crate::rules::{Match, Rule};

/// The rule without comments, every chance being the `1/n` that was meant.
pub(super) fn bare(rule: &Rule) -> Rule {
    let mut bare = rule.clone();
    bare.matches.retain(|one| !matches!(one, Match::Comment(_)));
    for one in &mut bare.matches {
        if let Match::Random(chance) = one {
            chance.value = chance.value.rounded();
        }
    }
    bare
}

/// Whether no packet can tell one sequence of rules from the other.
pub(super) fn are_alike(left: &[&Rule], right: &[&Rule]) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .all(|(left, right)| left == right || bare(left) == bare(right))
}

/// Whether both are the same rules, or lead to the same, in another order. Where the order of
/// endpoints changes, their chances stay with their places, so rules alone would not tell.
pub(super) fn are_reordered(left: &[&Rule], right: &[&Rule]) -> bool {
    let targets = |rules: &[&Rule]| rules.iter().map(|rule| rule.target.clone()).collect();
    let (old, new): (Vec<_>, Vec<_>) = (targets(left), targets(right));
    let bare = |rules: &[&Rule]| rules.iter().map(|rule| bare(rule)).collect();
    let (old_rules, new_rules): (Vec<_>, Vec<_>) = (bare(left), bare(right));
    (old != new && are_permuted(old, new))
        || (old_rules != new_rules && are_permuted(old_rules, new_rules))
}

fn are_permuted<T: Ord>(mut left: Vec<T>, mut right: Vec<T>) -> bool {
    left.sort_unstable();
    right.sort_unstable();
    left == right
}
