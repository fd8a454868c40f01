//! Objects of a kind that cannot be read, so that each is logged once.
//!
//! # Invariants
//!
//! The work for one object does not depend on how many there are: a cluster in which nothing can
//! be read costs as much as one in which everything can.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Objects logged by name. After these only every doubling is logged: a log of 60,000 names is
/// read by no one.
const MOST_NAMED: usize = 100;

/// Names kept at a time, in a few megabytes. With more, some are logged again.
const MOST_KNOWN: usize = 200_000;

/// The unreadable objects, as hashes of their names. Normally none.
#[derive(Debug, Default)]
pub(super) struct UnreadableObjects {
    known: HashSet<u64>,
    /// Those of the list under way.
    in_list: HashSet<u64>,
}

impl UnreadableObjects {
    /// A list begins; an object that it does not have is forgotten at its end.
    pub(super) fn begin_list(&mut self) {
        self.in_list.clear();
    }

    /// The list is complete.
    pub(super) fn end_list(&mut self) {
        self.known = std::mem::take(&mut self.in_list);
    }

    /// Adds an object. Returns how many there are now, if that is worth a line in the log.
    pub(super) fn add(&mut self, namespace: &str, name: &str) -> Option<usize> {
        let object = hash(namespace, name);
        if self.known.len() >= MOST_KNOWN {
            *self = Self::default();
        }
        self.in_list.insert(object);
        let is_new = self.known.insert(object);
        let count = self.known.len();
        (is_new && (count <= MOST_NAMED || count.is_power_of_two())).then_some(count)
    }

    /// The object can be read, or is gone.
    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        if !self.known.is_empty() {
            let object = hash(namespace, name);
            self.known.remove(&object);
            self.in_list.remove(&object);
        }
    }
}

fn hash(namespace: &str, name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (namespace, name).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unreadable_object_is_logged_once_while_it_is_unreadable() {
        let mut objects = UnreadableObjects::default();
        assert_eq!(objects.add("ns", "a"), Some(1));
        assert_eq!(objects.add("ns", "b"), Some(2));
        assert_eq!(objects.add("ns", "a"), None);
        objects.remove("ns", "a");
        assert_eq!(objects.add("ns", "a"), Some(2));
        // A list that has `a` alone.
        objects.begin_list();
        assert_eq!(objects.add("ns", "a"), None);
        objects.end_list();
        assert_eq!(objects.add("ns", "a"), None);
        assert_eq!(objects.add("ns", "b"), Some(2));
    }

    #[test]
    fn many_are_logged_ever_more_rarely_and_memory_is_bounded() {
        let mut objects = UnreadableObjects::default();
        let add = |number: usize| objects.add("ns", &number.to_string());
        let logged = (0..150_000).filter_map(add).count();
        assert_eq!(logged, MOST_NAMED + 11);
        for number in 0..3 * MOST_KNOWN {
            objects.add("ns", &number.to_string());
        }
        assert!(objects.known.len() <= MOST_KNOWN);
        assert!(objects.in_list.len() <= MOST_KNOWN + 1);
    }
}
