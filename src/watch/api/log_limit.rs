//! Limits the log: decides which failures, undecodable objects and mass deletions are logged.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

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

/// Time within which deletions are counted together.
const DELETION_WINDOW: Duration = Duration::from_secs(60);

/// Minimum deletions of a mass deletion, unless no object is left.
const MIN_MASS_DELETED: usize = 10;

/// Number of objects of one kind, and its maximum in the current [`DELETION_WINDOW`].
#[derive(Debug, Default)]
pub(super) struct ObjectCount {
    count: usize,
    window_max: usize,
    window_start: Option<Instant>,
}

/// Deletion of more than half of the objects within the window. It may be intended, so their rules
/// are removed. It is logged for an operator who looks for the cause of an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MassDeletion {
    pub(super) before: usize,
    pub(super) after: usize,
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

impl ObjectCount {
    /// Records a complete list of this many objects. It is compared with the maximum of the last
    /// window, however old that is: the server may have been unreachable in between.
    pub(super) fn listed(&mut self, count: usize, now: Instant) -> Option<MassDeletion> {
        self.window_max = self.window_max.max(self.count);
        self.count = count;
        let deletion = self.mass_deletion(now);
        self.begin_window(now);
        deletion
    }

    /// Counts an object that a watch has added.
    pub(super) fn added(&mut self, now: Instant) {
        self.advance_window(now);
        self.count = self.count.saturating_add(1);
        self.window_max = self.window_max.max(self.count);
    }

    /// Counts an object that a watch has deleted.
    pub(super) fn deleted(&mut self, now: Instant) -> Option<MassDeletion> {
        self.advance_window(now);
        self.count = self.count.saturating_sub(1);
        self.mass_deletion(now)
    }

    fn advance_window(&mut self, now: Instant) {
        let is_over = |since| now.saturating_duration_since(since) >= DELETION_WINDOW;
        if self.window_start.is_none_or(is_over) {
            self.begin_window(now);
        }
    }

    fn begin_window(&mut self, now: Instant) {
        self.window_max = self.count;
        self.window_start = Some(now);
    }

    fn mass_deletion(&mut self, now: Instant) -> Option<MassDeletion> {
        let (before, after) = (self.window_max, self.count);
        let deleted = before.saturating_sub(after);
        let is_mass = deleted >= MIN_MASS_DELETED && after < deleted || after == 0 && deleted > 1;
        is_mass.then(|| {
            self.begin_window(now);
            MassDeletion { before, after }
        })
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

    #[track_caller]
    fn check(deletion: Option<MassDeletion>, expected: Option<(usize, usize)>) {
        let found = deletion.map(|deletion| (deletion.before, deletion.after));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_list_of_less_than_half_is_a_mass_deletion() {
        let now = Instant::now();
        for (before, after, is_mass) in [
            (0, 0, false),
            (1, 0, false),
            (2, 0, true),
            (12, 4, false),
            (20, 10, false),
            (20, 9, true),
            (5000, 0, true),
            (5000, 6000, false),
        ] {
            let mut count = ObjectCount::default();
            check(count.listed(before, now), None);
            let expected = is_mass.then_some((before, after));
            check(count.listed(after, now), expected);
            check(count.listed(after, now), None);
        }
    }

    #[test]
    fn single_deletions_within_a_minute_are_a_mass_deletion() {
        let mut now = Instant::now();
        let mut count = ObjectCount::default();
        count.listed(100, now);
        let deletions = (0..100).filter_map(|_| count.deleted(now));
        let deletions: Vec<_> = deletions
            .map(|deletion| (deletion.before, deletion.after))
            .collect();
        assert_eq!(deletions, [(100, 49), (49, 24), (24, 11), (11, 1)]);
        for _ in 0..100 {
            count.added(now);
        }
        for _ in 0..60 {
            now += DELETION_WINDOW / 30;
            check(count.deleted(now), None);
        }
    }
}
