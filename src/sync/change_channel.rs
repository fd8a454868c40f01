//! Channel of changes from a source to the task of one family, and their intake there.
//!
//! Adds the lock, the wake-up and the counting to [`ChangeQueue`], which is pure. A source never
//! waits for a sync, and never needs more memory than its objects do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::pacer::Pacer;
use super::report::Reporter;
use crate::model::{Change, Kind};
use crate::telemetry::SyncMetrics;
use crate::tracker::{ChangeQueue, Tracker};

/// Creates a channel for the changes of one family. The sender counts changes in the metrics.
pub fn change_channel(metrics: SyncMetrics) -> (ChangeSender, ChangeReceiver) {
    let channel = Arc::new(Channel::default());
    let sender = ChangeSender {
        channel: Arc::clone(&channel),
        metrics,
    };
    (sender, ChangeReceiver(channel))
}

/// Sender, for the source of changes.
pub struct ChangeSender {
    channel: Arc<Channel>,
    metrics: SyncMetrics,
}

/// Receiver, for the task of the family.
pub struct ChangeReceiver(Arc<Channel>);

#[derive(Default)]
struct Channel {
    state: Mutex<ChannelState>,
    changed: Notify,
}

#[derive(Default)]
struct ChannelState {
    queue: ChangeQueue,
    has_no_sender: bool,
    has_no_receiver: bool,
}

impl Channel {
    fn state(&self) -> MutexGuard<'_, ChannelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChangeSender {
    /// Adds a change. Without a receiver, because the family is disabled on this node, it is
    /// dropped.
    pub fn send(&self, change: Change) {
        let mut state = self.channel.state();
        if state.has_no_receiver {
            return;
        }
        match state.queue.push(change) {
            Some(Kind::Service) => self.metrics.service_change(),
            Some(Kind::EndpointSlice) => self.metrics.endpoint_change(),
            Some(Kind::Node) | None => {}
        }
        if !state.queue.is_empty() {
            self.channel.changed.notify_one();
        }
    }
}

impl Drop for ChangeSender {
    fn drop(&mut self) {
        self.channel.state().has_no_sender = true;
        self.channel.changed.notify_one();
    }
}

impl ChangeReceiver {
    /// Waits for changes and takes all of them; `None` after the sender is dropped. Cancellation
    /// loses nothing.
    pub async fn recv(&mut self) -> Option<Vec<Change>> {
        loop {
            {
                let mut state = self.0.state();
                if !state.queue.is_empty() {
                    return Some(state.queue.take());
                }
                if state.has_no_sender {
                    return None;
                }
            }
            self.0.changed.notified().await;
        }
    }
}

impl Drop for ChangeReceiver {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.has_no_receiver = true;
        state.queue = ChangeQueue::default();
    }
}

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
