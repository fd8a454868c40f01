//! Compares two lists of rules: edit script, and cosmetic equality.

use std::collections::BTreeMap;
use std::hash::Hash;

use similar::{Algorithm, ChangeTag, capture_diff_slices};

use crate::rules::{Match, Rule};

/// One step of an edit script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit<T> {
    /// On both sides.
    Kept(T),
    /// On the live side only, or at another position on the desired side.
    Removed(T),
    /// On the desired side only, or at another position on the live side.
    Added(T),
}

/// Returns the shortest edit script that turns `live` into `desired`.
pub(super) fn edits<T: Copy + Hash + Ord>(live: &[T], desired: &[T]) -> Vec<Edit<T>> {
    let steps = capture_diff_slices(Algorithm::Myers, live, desired);
    let changes = steps
        .iter()
        .flat_map(|step| step.iter_changes(live, desired));
    let edits = changes.map(|change| match change.tag() {
        ChangeTag::Equal => Edit::Kept(change.value()),
        ChangeTag::Delete => Edit::Removed(change.value()),
        ChangeTag::Insert => Edit::Added(change.value()),
    });
    edits.collect()
}

/// Pairs the values of the live and the desired side by their keys; a side without a key has the
/// default value.
pub(super) fn paired<K: Ord, V: Default>(
    live: impl IntoIterator<Item = (K, V)>,
    desired: impl IntoIterator<Item = (K, V)>,
) -> BTreeMap<K, [V; 2]> {
    let mut pairs: BTreeMap<K, [V; 2]> = BTreeMap::new();
    for (key, value) in live {
        pairs.entry(key).or_default()[0] = value;
    }
    for (key, value) in desired {
        pairs.entry(key).or_default()[1] = value;
    }
    pairs
}

/// Returns a rule without its cosmetic parts: comments, and the rounding of probabilities, which
/// become the `1/n` that was meant.
pub(super) fn without_cosmetics(rule: &Rule) -> Rule {
    let mut bare = rule.clone();
    bare.matches.retain(|one| !matches!(one, Match::Comment(_)));
    for one in &mut bare.matches {
        if let Match::Random(chance) = one {
            chance.value = chance.value.rounded();
        }
    }
    bare
}

/// Reports whether the differences between two lists of rules are cosmetic.
pub(super) fn are_equivalent(live: &[&Rule], desired: &[&Rule]) -> bool {
    let is_equivalent = |(old, new): (&&Rule, &&Rule)| {
        old == new || without_cosmetics(old) == without_cosmetics(new)
    };
    live.len() == desired.len() && live.iter().zip(desired).all(is_equivalent)
}

#[cfg(test)]
#[path = "tests/edit.rs"]
mod tests;
