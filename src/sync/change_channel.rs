//! The way of changes from a source to the task of one family.
//!
//! Kept separate from [`ChangeQueue`], which is pure: here are the lock, the wake-up and the
//! counting. A source never waits for a sync, and never needs more memory than its objects do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::model::{Change, Kind};
use crate::telemetry::SyncMetrics;
use crate::tracker::ChangeQueue;

/// Makes a channel for the changes of one family, each counted when it is sent.
pub fn change_channel(metrics: SyncMetrics) -> (ChangeSender, ChangeReceiver) {
    let channel = Arc::new(Channel::default());
    let sender = ChangeSender {
        channel: Arc::clone(&channel),
        metrics,
    };
    (sender, ChangeReceiver(channel))
}

/// The end of a source.
pub struct ChangeSender {
    channel: Arc<Channel>,
    metrics: SyncMetrics,
}

/// The end of a family's task.
pub struct ChangeReceiver(Arc<Channel>);

#[derive(Default)]
struct Channel {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    queue: ChangeQueue,
    has_no_sender: bool,
    has_no_receiver: bool,
}

impl Channel {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChangeSender {
    /// Adds a change. Without a receiver this node does without the family, and it is dropped.
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
    /// Waits for changes and takes all of them; `None` when there will be no more. Nothing is lost
    /// if the wait is given up.
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
