//! Names that look like one that is not there.
//!
//! Apart because it is about letters, not about rules.

use std::collections::BTreeSet;
use std::fmt;

use super::pattern::NamePattern;
use super::port::PortName;

/// What may have been meant instead, sorted; perhaps nothing. Prints as a hint on a line of its
/// own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Similar(pub BTreeSet<String>);

impl fmt::Display for Similar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|name| format!("`{name}`")).collect();
        match names.as_slice() {
            [] => f.write_str(
                "\nhint: `deltaproxy services` lists those that have; headless ones and \
                 ExternalName never do",
            ),
            [only] => write!(f, "\nhint: is {only} meant?"),
            names => write!(f, "\nhint: is one of {} meant?", names.join(", ")),
        }
    }
}

/// More would not be read.
const MOST: usize = 5;

/// Services whose name is the same elsewhere, is part of the other, or differs by two letters.
pub(super) fn services<'c>(
    asked: &NamePattern,
    all: impl Iterator<Item = &'c PortName>,
) -> Similar {
    let mut near = BTreeSet::new();
    for name in all {
        let (known, wanted) = (name.service(), &*asked.service);
        let distance = likeness(known, wanted);
        // A wrong namespace is less likely than a wrong letter.
        let namespace = asked.namespace.as_deref();
        let elsewhere = usize::from(namespace.is_some_and(|asked| asked != name.namespace()));
        if distance <= NEAR {
            near.insert((
                distance + elsewhere,
                format!("{}/{known}", name.namespace()),
            ));
        }
    }
    Similar(near.into_iter().take(MOST).map(|(_, name)| name).collect())
}

/// Two letters that changed places are two changes.
const NEAR: usize = 2;

/// Whether one may have been typed for the other.
pub(super) fn is_near(known: &str, wanted: &str) -> bool {
    likeness(known, wanted) <= NEAR
}

/// The smaller, the more likely one was typed for the other.
fn likeness(known: &str, wanted: &str) -> usize {
    match () {
        () if known == wanted => 0,
        () if known.contains(wanted) || wanted.contains(known) => 1,
        () => distance(known, wanted),
    }
}

/// How many letters have to be put in, left out or changed.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (number, letter) in left.chars().enumerate() {
        let mut before = number;
        let mut beside = number + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(&right) {
            let changed = before + usize::from(letter != *other);
            before = *cell;
            beside = changed.min(before + 1).min(beside + 1);
            *cell = beside;
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
    fn letters_are_counted() {
        for (left, right, expected) in [
            ("web", "web", 0),
            ("web", "wbe", 2),
            ("web", "webs", 1),
            ("", "web", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(left, right), expected, "{left} {right}");
            assert_eq!(distance(right, left), expected, "{right} {left}");
        }
    }
}
