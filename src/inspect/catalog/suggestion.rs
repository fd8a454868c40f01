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
        () => strsim::levenshtein(known, wanted),
    }
}
