//! Intake of changes into the task of one family.

use tokio::time::Instant;

use super::pacer::Pacer;
use super::report::Reporter;
use crate::model::Change;
use crate::tracker::Tracker;

/// Parts of a task that take changes, also while a check borrows the other parts.
pub(super) struct Intake<'a> {
    pub(super) tracker: &'a mut Tracker,
    pub(super) pacer: &'a mut Pacer,
    pub(super) reporter: &'a Reporter,
}

impl Intake<'_> {
    /// Applies changes to the tracker, and requests a sync if one is needed.
    pub(super) fn take(&mut self, changes: Vec<Change>) {
        let was_synced = self.tracker.is_synced();
        let node = self.tracker.node().cloned();
        for change in changes {
            self.reporter.change(&change);
            self.tracker.apply(change);
        }
        self.reporter.pending(self.tracker);
        // The sync finds out whether a rule depends on the change of the Node.
        let is_node_new = self.tracker.node() != node.as_ref();
        if self.tracker.is_synced() && (self.tracker.has_pending() || is_node_new || !was_synced) {
            self.request();
        }
    }

    pub(super) fn request(&mut self) {
        let now = Instant::now().into_std();
        self.pacer.request(now);
        self.reporter.queued(now);
    }
}
