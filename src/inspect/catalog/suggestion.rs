//! Suggests known names that are spelled like one without a match.

use std::collections::BTreeSet;
use std::fmt;

use super::name::{NamePattern, PortName};

/// Names that may have been meant instead, sorted; may be empty. Displayed as a hint on a line of
/// its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Suggestions(pub BTreeSet<String>);

impl fmt::Display for Suggestions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|name| format!("`{name}`")).collect();
        match names.as_slice() {
            [] => f.write_str(
                "\nhint: run `deltaproxy services` to list Services with rules; headless and \
                 ExternalName Services have none",
            ),
            [only] => write!(f, "\nhint: did you mean {only}?"),
            names => write!(f, "\nhint: did you mean one of {}?", names.join(", ")),
        }
    }
}

/// Maximum suggestions in one hint: more would not be read.
pub(super) const MAX_SUGGESTIONS: usize = 5;

/// Returns Services whose name is equal in another namespace, contains the other or is contained
/// in it, or differs by at most two letters.
pub(super) fn services<'c>(
    pattern: &NamePattern,
    known: impl Iterator<Item = &'c PortName>,
) -> Suggestions {
    let mut near = BTreeSet::new();
    for name in known {
        let service = name.service();
        let distance = distance(service, &pattern.service);
        // A wrong namespace is less likely than a wrong letter.
        let namespace = pattern.namespace.as_deref();
        let is_elsewhere = namespace.is_some_and(|wanted| wanted != name.namespace());
        if distance <= MAX_DISTANCE {
            near.insert((
                distance + usize::from(is_elsewhere),
                format!("{}/{service}", name.namespace()),
            ));
        }
    }
    let nearest = near.into_iter().take(MAX_SUGGESTIONS);
    Suggestions(nearest.map(|(_, name)| name).collect())
}

/// Maximum distance of a suggestion: two transposed letters count as two edits.
const MAX_DISTANCE: usize = 2;

/// Reports whether one name may be a misspelling of the other.
pub(super) fn is_near(known: &str, wanted: &str) -> bool {
    distance(known, wanted) <= MAX_DISTANCE
}

/// Returns the edit distance, or 1 if one name contains the other.
fn distance(known: &str, wanted: &str) -> usize {
    match () {
        () if known == wanted => 0,
        () if known.contains(wanted) || wanted.contains(known) => 1,
        () => levenshtein(known, wanted),
    }
}

/// Returns the number of letters to insert, delete or replace.
fn levenshtein(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (number, letter) in left.chars().enumerate() {
        // Cells of the row above and of this row, both in the column before.
        let mut diagonal = number;
        let mut previous = number + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(&right) {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = *cell;
            previous = replaced.min(diagonal + 1).min(previous + 1);
            *cell = previous;
        }
        if let Some(first) = row.first_mut() {
            *first = number + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levenshtein_counts_edits() {
        for (left, right, expected) in [
            ("web", "web", 0),
            ("web", "wbe", 2),
            ("web", "webs", 1),
            ("", "web", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(levenshtein(left, right), expected, "{left} {right}");
            assert_eq!(levenshtein(right, left), expected, "{right} {left}");
        }
    }
}
