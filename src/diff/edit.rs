//! The fewest removals and additions that make one sequence into another.
//!
//! Apart because both the review and the plain text need it, of rules that have an order.

/// What becomes of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit<T> {
    /// It is on both sides.
    Kept(T),
    /// It is on the left only, or elsewhere on the right.
    Removed(T),
    /// It is on the right only, or elsewhere on the left.
    Added(T),
}

/// The largest table of comparisons: 16 MB. What would need a larger one, a chain of thousands of
/// rules of which none is at its end, is shown as all removed and all added.
const MOST_COMPARISONS: usize = 4_000_000;

/// How `left` becomes `right`.
pub(super) fn edits<T: Copy + PartialEq>(left: &[T], right: &[T]) -> Vec<Edit<T>> {
    let head = common(left.iter(), right.iter());
    let (kept, left) = left.split_at_checked(head).unwrap_or((left, &[]));
    let (_, right) = right.split_at_checked(head).unwrap_or((right, &[]));
    let tail = common(left.iter().rev(), right.iter().rev());
    let (left, _) = left
        .split_at_checked(left.len() - tail)
        .unwrap_or((left, &[]));
    let (right, end) = right
        .split_at_checked(right.len() - tail)
        .unwrap_or((right, &[]));
    let mut edits: Vec<Edit<T>> = kept.iter().copied().map(Edit::Kept).collect();
    between(left, right, &mut edits);
    edits.extend(end.iter().copied().map(Edit::Kept));
    edits
}

fn common<'a, T: PartialEq + 'a>(
    left: impl Iterator<Item = &'a T>,
    right: impl Iterator<Item = &'a T>,
) -> usize {
    left.zip(right)
        .take_while(|(left, right)| left == right)
        .count()
}

/// Follows the longest common subsequence.
fn between<T: Copy + PartialEq>(left: &[T], right: &[T], edits: &mut Vec<Edit<T>>) {
    let lengths = lengths(left, right);
    let width = right.len() + 1;
    let longest = |row: usize, column: usize| lengths.get(row * width + column).copied();
    let (mut row, mut column) = (0, 0);
    loop {
        match (left.get(row), right.get(column)) {
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

/// The length of the longest common subsequence of what is left of both from each place on; empty
/// if that is too much to ask.
fn lengths<T: PartialEq>(left: &[T], right: &[T]) -> Vec<u32> {
    let width = right.len() + 1;
    let size = (left.len() + 1).saturating_mul(width);
    if size > MOST_COMPARISONS {
        return Vec::new();
    }
    let mut lengths = vec![0_u32; size];
    for (row, old) in left.iter().enumerate().rev() {
        for (column, new) in right.iter().enumerate().rev() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(left: &str, right: &str, expected: &str) {
        let (left, right): (Vec<char>, Vec<char>) =
            (left.chars().collect(), right.chars().collect());
        let shown: Vec<String> = edits(&left, &right)
            .into_iter()
            .map(|edit| match edit {
                Edit::Kept(c) => format!("{c}"),
                Edit::Removed(c) => format!("-{c}"),
                Edit::Added(c) => format!("+{c}"),
            })
            .collect();
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn few_edits_lead_from_one_to_the_other() {
        check("", "", "");
        check("abc", "abc", "a b c");
        check("abc", "ac", "a -b c");
        check("ac", "abc", "a +b c");
        check("ab", "ba", "-a b +a");
        check("abcd", "axcy", "a -b +x c -d +y");
        check("a", "", "-a");
        check("", "a", "+a");
    }

    #[test]
    fn too_much_is_all_removed_and_all_added() {
        let left: Vec<usize> = (0..3000).collect();
        let right: Vec<usize> = (1..3001).map(|n| n * 2).collect();
        let edits = edits(&left, &right);
        assert_eq!(edits.len(), 6000);
        assert!(matches!(edits[0], Edit::Removed(0)));
        assert!(matches!(edits[5999], Edit::Added(6000)));
    }
}
