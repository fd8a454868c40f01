//! What became of service ports between two looks.
//!
//! Apart from [watching](super::watch), which waits and prints, because a table has one row for
//! both families and documents have an entry for each: what changed in one of them is no change of
//! the other.

use std::collections::BTreeMap;

use serde::Serialize;

use super::row::Row;
use crate::inspect::catalog::{PortName, PortView};
use crate::net::IpFamily;

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Event {
    Added,
    Changed,
    Gone,
}

impl Event {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Changed => "CHANGED",
            Self::Gone => "GONE",
        }
    }

    /// Nothing, if it is as it was; else the event, and the last that is known.
    fn between<T: PartialEq>(before: Option<T>, after: Option<T>) -> Option<(Self, T)> {
        match (before, after) {
            (None, Some(new)) => Some((Self::Added, new)),
            (Some(old), Some(new)) if old != new => Some((Self::Changed, new)),
            (Some(old), None) => Some((Self::Gone, old)),
            (Some(_), Some(_)) | (None, None) => None,
        }
    }
}

/// All service ports of two looks, in their order; those that are gone come last.
pub(super) struct Changes<'a>(Vec<(Option<&'a Row>, Option<&'a Row>)>);

impl<'a> Changes<'a> {
    pub(super) fn new(before: &'a [Row], after: &'a [Row]) -> Self {
        let known = before.iter().map(|row| (&row.name, row));
        let mut known: BTreeMap<&PortName, &Row> = known.collect();
        let still = after.iter().map(|row| (known.remove(&row.name), Some(row)));
        let mut pairs: Vec<_> = still.collect();
        let gone = before.iter().filter(|row| known.contains_key(&row.name));
        pairs.extend(gone.map(|row| (Some(row), None)));
        Self(pairs)
    }

    /// The rows that differ, in any family.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Event, &'a Row)> {
        let pairs = self.0.iter();
        pairs.filter_map(|(before, after)| Event::between(*before, *after))
    }

    /// The families of rows that differ.
    pub(super) fn entries(
        &self,
    ) -> impl Iterator<Item = (Event, &'a PortName, IpFamily, &'a PortView)> {
        self.0.iter().flat_map(|(before, after)| {
            let name = before.or(*after).map(|row| &row.name);
            let of = |row: Option<&'a Row>, family| row.and_then(|row| row.view(family));
            let families = IpFamily::ALL.into_iter();
            families.filter_map(move |family| {
                let (event, view) = Event::between(of(*before, family), of(*after, family))?;
                Some((event, name?, family, view))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::PerFamily;

    /// A row with so many rules of each family; with none, the family does not have it.
    fn row(name: &str, v4: usize, v6: usize) -> Row {
        let (name, protocol) = (name.into(), "tcp".into());
        let view = |rules| {
            (rules > 0).then(|| PortView {
                rules,
                ..PortView::default()
            })
        };
        Row {
            name: PortName { name, protocol },
            views: PerFamily {
                v4: view(v4),
                v6: view(v6),
            },
        }
    }

    #[test]
    fn only_what_differs_is_a_change() {
        let before = [row("a/a", 1, 0), row("a/b", 1, 0), row("a/d", 1, 0)];
        let after = [row("a/a", 1, 0), row("a/b", 2, 0), row("a/c", 1, 0)];
        let changes = Changes::new(&before, &after);
        let shown = changes.rows().map(|(event, row)| (event, &*row.name.name));
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                (Event::Changed, "a/b"),
                (Event::Added, "a/c"),
                (Event::Gone, "a/d"),
            ]
        );
    }

    /// The events of a row's families that had, and have, so many rules.
    #[track_caller]
    fn check(before: [usize; 2], after: [usize; 2], expected: &[(Event, IpFamily)]) {
        let rows = |[v4, v6]: [usize; 2]| {
            let row = (v4 + v6 > 0).then(|| row("a/a", v4, v6));
            Vec::from_iter(row)
        };
        let (before, after) = (rows(before), rows(after));
        let changes = Changes::new(&before, &after);
        let entries = changes.entries();
        let found = entries.map(|(event, _, family, _)| (event, family));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_change_of_one_family_is_none_of_the_other() {
        let (v4, v6) = (IpFamily::V4, IpFamily::V6);
        check([1, 1], [1, 1], &[]);
        check([1, 1], [2, 1], &[(Event::Changed, v4)]);
        check([1, 1], [1, 0], &[(Event::Gone, v6)]);
        check([0, 1], [1, 1], &[(Event::Added, v4)]);
        check([1, 0], [0, 1], &[(Event::Gone, v4), (Event::Added, v6)]);
        check([1, 1], [0, 0], &[(Event::Gone, v4), (Event::Gone, v6)]);
    }
}
