//! Counts objects, to notice that most of them are deleted at once.

use std::time::Duration;

use tokio::time::Instant;

/// Time within which deletions are counted together.
const DELETION_WINDOW: Duration = Duration::from_secs(60);

/// Minimum deletions of a mass deletion, unless no object is left.
const MIN_MASS_DELETED: usize = 10;

/// Number of objects of one kind, and its maximum in the current [`DELETION_WINDOW`].
#[derive(Debug, Default)]
pub(crate) struct ObjectCount {
    count: usize,
    /// Never less than `count`, except within [`Self::listed`].
    window_max: usize,
    window_start: Option<Instant>,
}

/// Deletion of more than half of the objects within the window. It may be intended, so their rules
/// are removed. It is logged for an operator who looks for the cause of an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MassDeletion {
    pub(crate) before: usize,
    pub(crate) after: usize,
}

impl ObjectCount {
    /// Records a complete list of this many objects. It is compared with the maximum of the last
    /// window, however old that is: the server may have been unreachable in between.
    pub(crate) fn listed(&mut self, count: usize, now: Instant) -> Option<MassDeletion> {
        self.count = count;
        let deletion = self.mass_deletion(now);
        self.begin_window(now);
        deletion
    }

    pub(crate) fn added(&mut self, now: Instant) {
        self.advance_window(now);
        self.count = self.count.saturating_add(1);
        self.window_max = self.window_max.max(self.count);
    }

    pub(crate) fn deleted(&mut self, now: Instant) -> Option<MassDeletion> {
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
#[path = "tests/mass_deletion.rs"]
mod tests;
