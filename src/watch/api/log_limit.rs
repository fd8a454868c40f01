//! Limits the log: decides which failures, undecodable objects and mass deletions are logged.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::watch::mass_deletion::MassDeletion;

/// Consecutive failures of lists and watches of one kind, of which few are logged: if a server is
/// down for an hour, hundreds of requests fail for one reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FailureLog {
    failures: u32,
    status: Option<u16>,
}

/// Maximum number of failures from one log line to the next: a quarter of an hour at the maximum
/// delay.
const MAX_UNLOGGED_FAILURES: u32 = 32;

impl FailureLog {
    /// Counts a failure. Returns the number of failures if this one is to be logged: if its status
    /// differs from that of the one before, or the number is a power of two or a multiple of
    /// [`MAX_UNLOGGED_FAILURES`].
    pub(super) fn failed(&mut self, status: Option<u16>) -> Option<u32> {
        let is_new = self.status != status;
        self.status = status;
        self.failures = self.failures.saturating_add(1);
        let is_due =
            self.failures.is_power_of_two() || self.failures.is_multiple_of(MAX_UNLOGGED_FAILURES);
        (is_new || is_due).then_some(self.failures)
    }

    /// Records a success. Returns the number of failures before it, if any.
    pub(super) fn recovered(&mut self) -> Option<u32> {
        let failures = std::mem::take(self).failures;
        (failures > 0).then_some(failures)
    }
}

/// Maximum objects that are all logged by name. Above it, an object is logged only if it makes
/// their number a power of two: a log of 60,000 names is useless.
const MAX_LOGGED_NAMES: usize = 100;

/// Maximum names that are remembered: a few megabytes. With more, some are logged again.
const MAX_REMEMBERED_NAMES: usize = 200_000;

/// Objects that cannot be decoded, as hashes of their names. Normally there are none.
#[derive(Debug, Default)]
pub(super) struct UndecodableObjects {
    known: HashSet<u64>,
    /// Those of the list that is being read.
    in_list: HashSet<u64>,
}

impl UndecodableObjects {
    /// Begins a list.
    pub(super) fn begin_list(&mut self) {
        self.in_list.clear();
    }

    /// Ends a list: forgets the objects that it did not have.
    pub(super) fn end_list(&mut self) {
        self.known = std::mem::take(&mut self.in_list);
    }

    /// Adds an object. Returns the number of undecodable objects if this one is to be logged.
    pub(super) fn add(&mut self, namespace: &str, name: &str) -> Option<usize> {
        let object = hash(namespace, name);
        if self.known.len() >= MAX_REMEMBERED_NAMES {
            *self = Self::default();
        }
        self.in_list.insert(object);
        let is_new = self.known.insert(object);
        let count = self.known.len();
        (is_new && (count <= MAX_LOGGED_NAMES || count.is_power_of_two())).then_some(count)
    }

    /// Removes an object that can be decoded again, or is deleted.
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

/// Logs a mass deletion of objects of a kind, if there was one.
pub(super) fn log_mass_deletion(deletion: Option<MassDeletion>, server: &str, kind: &str) {
    if let Some(MassDeletion { before, after }) = deletion {
        tracing::warn!(
            server,
            kind,
            before,
            after,
            "most objects of this kind were deleted or are no longer selected: their rules are \
             removed; if that was not intended, restore the objects in the cluster",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_logged_rarely_until_the_status_changes() {
        let mut log = FailureLog::default();
        let logged: Vec<u32> = (0..70).filter_map(|_| log.failed(None)).collect();
        assert_eq!(logged, [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(log.failed(Some(503)), Some(71));
        assert_eq!(log.failed(Some(503)), None);
        assert_eq!(log.recovered(), Some(72));
        assert_eq!(log.recovered(), None);
    }

    #[test]
    fn an_undecodable_object_is_logged_once_while_it_is_undecodable() {
        let mut objects = UndecodableObjects::default();
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
    fn many_undecodable_objects_are_logged_rarely_and_memory_is_bounded() {
        let mut objects = UndecodableObjects::default();
        let add = |number: usize| objects.add("ns", &number.to_string());
        let logged = (0..150_000).filter_map(add).count();
        assert_eq!(logged, MAX_LOGGED_NAMES + 11);
        for number in 0..3 * MAX_REMEMBERED_NAMES {
            objects.add("ns", &number.to_string());
        }
        assert!(objects.known.len() <= MAX_REMEMBERED_NAMES);
        assert!(objects.in_list.len() <= MAX_REMEMBERED_NAMES + 1);
    }
}
