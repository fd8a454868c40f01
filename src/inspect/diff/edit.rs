//! Compares two lists of rules: edit script, cosmetic equality, and changes of order.

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

/// Maximum cells of the table of subsequence lengths: 16 MB. Only a chain of thousands of rules
/// with neither a common beginning nor a common end needs more, and is shown as all removed and
/// all added.
const MAX_CELLS: usize = 4_000_000;

/// Returns the shortest edit script that turns `live` into `desired`.
pub(super) fn edits<T: Copy + PartialEq>(live: &[T], desired: &[T]) -> Vec<Edit<T>> {
    let head = common(live.iter(), desired.iter());
    let (kept, live) = live.split_at_checked(head).unwrap_or((live, &[]));
    let (_, desired) = desired.split_at_checked(head).unwrap_or((desired, &[]));
    let tail = common(live.iter().rev(), desired.iter().rev());
    let (live, _) = live
        .split_at_checked(live.len() - tail)
        .unwrap_or((live, &[]));
    let (desired, end) = desired
        .split_at_checked(desired.len() - tail)
        .unwrap_or((desired, &[]));
    let mut edits: Vec<Edit<T>> = kept.iter().copied().map(Edit::Kept).collect();
    append_edits(live, desired, &mut edits);
    edits.extend(end.iter().copied().map(Edit::Kept));
    edits
}

fn common<'a, T: PartialEq + 'a>(
    live: impl Iterator<Item = &'a T>,
    desired: impl Iterator<Item = &'a T>,
) -> usize {
    live.zip(desired)
        .take_while(|(live, desired)| live == desired)
        .count()
}

/// Follows the longest common subsequence.
fn append_edits<T: Copy + PartialEq>(live: &[T], desired: &[T], edits: &mut Vec<Edit<T>>) {
    let lengths = subsequence_lengths(live, desired);
    let width = desired.len() + 1;
    let longest = |row: usize, column: usize| lengths.get(row * width + column).copied();
    let (mut row, mut column) = (0, 0);
    loop {
        match (live.get(row), desired.get(column)) {
            (Some(old), Some(new)) if old == new && !lengths.is_empty() => {
                edits.push(Edit::Kept(*new));
                row += 1;
                column += 1;
            }
            (Some(old), _) if longest(row + 1, column) >= longest(row, column + 1) => {
                edits.push(Edit::Removed(*old));
                row += 1;
            }
            (_, Some(new)) => {
                edits.push(Edit::Added(*new));
                column += 1;
            }
            (Some(old), None) => {
                edits.push(Edit::Removed(*old));
                row += 1;
            }
            (None, None) => return,
        }
    }
}

/// Returns, for each pair of positions, the length of the longest common subsequence of the two
/// remainders; empty above [`MAX_CELLS`].
fn subsequence_lengths<T: PartialEq>(live: &[T], desired: &[T]) -> Vec<u32> {
    let width = desired.len() + 1;
    let size = (live.len() + 1).saturating_mul(width);
    if size > MAX_CELLS {
        return Vec::new();
    }
    let mut lengths = vec![0_u32; size];
    for (row, old) in live.iter().enumerate().rev() {
        for (column, new) in desired.iter().enumerate().rev() {
            let at = |row: usize, column: usize| {
                lengths
                    .get(row * width + column)
                    .copied()
                    .unwrap_or_default()
            };
            let longest = if old == new {
                at(row + 1, column + 1) + 1
            } else {
                at(row + 1, column).max(at(row, column + 1))
            };
            if let Some(length) = lengths.get_mut(row * width + column) {
                *length = longest;
            }
        }
    }
    lengths
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

/// Reports whether two lists hold the same rules, or the same targets, in a different order. When
/// endpoints change places, probabilities stay at their position, so that comparing whole rules
/// would not show it.
pub(super) fn are_reordered(live: &[&Rule], desired: &[&Rule]) -> bool {
    let targets = |rules: &[&Rule]| rules.iter().map(|rule| rule.target.clone()).collect();
    let (old, new): (Vec<_>, Vec<_>) = (targets(live), targets(desired));
    let bare = |rules: &[&Rule]| rules.iter().map(|rule| without_cosmetics(rule)).collect();
    let (old_rules, new_rules): (Vec<_>, Vec<_>) = (bare(live), bare(desired));
    (old != new && are_permuted(old, new))
        || (old_rules != new_rules && are_permuted(old_rules, new_rules))
}

fn are_permuted<T: Ord>(mut live: Vec<T>, mut desired: Vec<T>) -> bool {
    live.sort_unstable();
    desired.sort_unstable();
    live == desired
}

#[cfg(test)]
#[path = "tests/edit.rs"]
mod tests;
