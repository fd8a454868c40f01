//! Channels of changes from a source to the task of each IP family.
//!
//! A source sends [`SourceChange`]s: changes of objects, the start and the end of its lists, and
//! the names of objects that exist and cannot be decoded. A [`ChangeQueue`] merges these to at most
//! one [`Change`] for each object, including the removals that follow from lists, and holds them
//! until they are received, so that a source never waits for a sync. It passes on the end of a list
//! ([`Change::Listed`]), and not its start. This file adds the lock, the wake-up and the metrics.

use std::sync::Arc;

use tokio::sync::{Notify, oneshot};

use crate::model::{Change, Kind, Node, SourceChange};
use crate::net::{IpFamily, Locked, PerFamily};
use crate::telemetry::SyncMetrics;
use crate::tracker::ChangeQueue;

/// Creates the channels of one source. The senders count changes in `metrics`, which commands do
/// not have.
pub fn change_channels(metrics: Option<&SyncMetrics>) -> (ChangeSenders, ChangeReceivers) {
    let channels = PerFamily::from_fn(|_| Arc::new(Channel::default()));
    let (first_node, node_received) = oneshot::channel();
    let senders = ChangeSenders {
        families: channels.as_ref().map(|_, channel| ChangeSender {
            channel: Arc::clone(channel),
            metrics: metrics.cloned(),
        }),
        first_node: Some(first_node),
        node: None,
    };
    let receivers = ChangeReceivers {
        families: channels.map(|_, channel| ChangeReceiver(channel)),
        first_node: node_received,
    };
    (senders, receivers)
}

/// Senders of one source.
pub struct ChangeSenders {
    families: PerFamily<ChangeSender>,
    /// `None` after the first list of Nodes.
    first_node: Option<oneshot::Sender<Option<Box<Node>>>>,
    /// Node of the first list of Nodes, while that is received.
    node: Option<Box<Node>>,
}

/// Receivers of one source.
pub struct ChangeReceivers {
    pub families: PerFamily<ChangeReceiver>,
    /// Receives the Node when the first list of Nodes is complete; `None` if the list lacks it, or
    /// if it cannot be decoded.
    pub first_node: oneshot::Receiver<Option<Box<Node>>>,
}

impl ChangeSenders {
    /// Sends a change of an object of one family.
    pub(crate) fn send(&self, family: IpFamily, change: impl Into<SourceChange>) {
        self.families.get(family).send(change.into());
    }

    /// Sends a change that concerns both families: of a list, of the Node, or of an object whose
    /// family is not known.
    pub(super) fn send_both(&mut self, change: impl Into<SourceChange>) {
        let change = change.into();
        if let SourceChange::Change(change) = &change {
            self.record_node(change);
        }
        for family in IpFamily::ALL {
            self.send(family, change.clone());
        }
    }

    fn record_node(&mut self, change: &Change) {
        match change {
            Change::Node(node) if self.first_node.is_some() => self.node.clone_from(node),
            Change::Listed(Kind::Node) => {
                if let Some(first_node) = self.first_node.take() {
                    // Commands drop the receiver.
                    let _ = first_node.send(self.node.take());
                }
            }
            _ => {}
        }
    }
}

/// Sender of the changes of one family.
struct ChangeSender {
    channel: Arc<Channel>,
    metrics: Option<SyncMetrics>,
}

/// Receiver of the changes of one family.
pub struct ChangeReceiver(Arc<Channel>);

#[derive(Default)]
struct Channel {
    state: Locked<ChannelState>,
    changed: Notify,
}

#[derive(Default)]
struct ChannelState {
    queue: ChangeQueue,
    has_no_sender: bool,
    has_no_receiver: bool,
}

impl ChangeSender {
    /// Queues a change. Drops it if there is no receiver, because the family is disabled on this
    /// node.
    fn send(&self, change: SourceChange) {
        let mut state = self.channel.state.lock();
        if state.has_no_receiver {
            return;
        }
        // `push` returns a kind for a change of one Service or slice only, so that removals which
        // follow from the end of a list are not counted.
        match (state.queue.push(change), &self.metrics) {
            (Some(Kind::Service), Some(metrics)) => metrics.service_change(),
            (Some(Kind::EndpointSlice), Some(metrics)) => metrics.endpoint_change(),
            (Some(Kind::Node) | None, _) | (_, None) => {}
        }
        if !state.queue.is_empty() {
            self.channel.changed.notify_one();
        }
    }
}

impl Drop for ChangeSender {
    fn drop(&mut self) {
        self.channel.state.lock().has_no_sender = true;
        self.channel.changed.notify_one();
    }
}

impl ChangeReceiver {
    /// Takes the changes that were sent so far.
    pub fn take(&mut self) -> Vec<Change> {
        self.0.state.lock().queue.take()
    }

    /// Waits for changes and takes all of them; `None` after the sender is dropped. Cancel safe: no
    /// change is lost.
    pub async fn recv(&mut self) -> Option<Vec<Change>> {
        loop {
            {
                let mut state = self.0.state.lock();
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
        let mut state = self.0.state.lock();
        state.has_no_receiver = true;
        state.queue = ChangeQueue::default();
    }
}

#[cfg(test)]
#[path = "tests/change_channel.rs"]
mod tests;
