//! Turns the events of a source into changes for each IP family, logs the diagnostics of
//! [`ingest`](crate::ingest), which are invalid and unsupported fields, and sends the changes
//! through channels to the task of each family.
//!
//! A source sends [`SourceChange`]s: changes of objects, the start and the end of its lists, and
//! the names of objects that exist and cannot be decoded. A [`ChangeQueue`] merges these to at most
//! one [`Change`] for each object, including the removals that follow from lists, and holds them
//! until they are received, so that a source never waits for a sync. It passes on the end of a list
//! ([`Change::Listed`]), and not its start. This file adds the lock, the wake-up and the metrics.

use std::borrow::Borrow;
use std::sync::Arc;

use tokio::sync::{Notify, oneshot};

use crate::ingest::{
    self, Diagnostic, EndpointSliceObject, Interner, NodeObject, ObjectName, ServiceObject,
};
use crate::model::{Change, Kind, Node, ServiceName, SliceName, SourceChange};
use crate::net::{IpFamily, Locked, PerFamily};
use crate::telemetry::SyncMetrics;
use crate::tracker::ChangeQueue;

/// Event of a source about objects of one kind, like `watcher::Event` of kube-rs. Events come in
/// the order of the source.
///
/// A list is a mark-and-sweep, like `Replace` of client-go: objects that it does not have are
/// deleted at its end.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceEvent<K> {
    /// A list begins (`Init` of kube-rs): no object is marked yet. May come again before
    /// [`SourceEvent::Listed`]: the earlier list has failed, and its marks are dropped.
    Listing,
    /// The object exists and has this state, during a list (`InitApply`, which marks it) or after
    /// it (`Apply`).
    Set(K),
    /// The object of this name was deleted, or is no longer selected.
    Deleted(ObjectName),
    /// The list is complete (`InitDone` of kube-rs): sweeps, that is, deletes the objects that were
    /// neither set nor [kept](Ingester::keep) since [`SourceEvent::Listing`].
    Listed,
}

/// Turns events into changes, sends them, and logs the diagnostics of each object.
pub struct Ingester {
    changes: ChangeSenders,
    node_name: Arc<str>,
    interner: Interner,
    /// The list of Nodes that is being read has the Node of this host.
    has_node: bool,
    has_logged_missing_node: bool,
}

impl Ingester {
    /// Returns an ingester for the daemon on the node called `node_name`.
    pub fn new(changes: ChangeSenders, node_name: Arc<str>) -> Self {
        Self {
            changes,
            node_name,
            interner: Interner::default(),
            has_node: false,
            has_logged_missing_node: false,
        }
    }

    /// Returns an ingester for a command. Does not log a missing Node: the command reports it.
    pub fn for_command(changes: ChangeSenders, node_name: Arc<str>) -> Self {
        Self {
            has_logged_missing_node: true,
            ..Self::new(changes, node_name)
        }
    }

    pub fn service(&mut self, event: SourceEvent<impl Borrow<ServiceObject>>) {
        match event {
            SourceEvent::Listing => self.changes.send_both(SourceChange::Listing(Kind::Service)),
            SourceEvent::Listed => self.changes.send_both(Change::Listed(Kind::Service)),
            SourceEvent::Set(object) => self.set_service(object.borrow()),
            SourceEvent::Deleted(name) => {
                let name = ServiceName::new(&name.namespace, &name.name);
                self.changes.send_both(Change::Service(name, None));
            }
        }
    }

    pub fn endpoint_slice(&mut self, event: SourceEvent<impl Borrow<EndpointSliceObject>>) {
        match event {
            SourceEvent::Listing => {
                self.changes
                    .send_both(SourceChange::Listing(Kind::EndpointSlice));
            }
            SourceEvent::Listed => self.changes.send_both(Change::Listed(Kind::EndpointSlice)),
            SourceEvent::Set(object) => self.set_slice(object.borrow()),
            // To both families: removing a slice that a family never had changes nothing.
            SourceEvent::Deleted(name) => {
                let name = SliceName::new(&name.namespace, &name.name);
                self.changes.send_both(Change::Slice(name, None, None));
            }
        }
    }

    /// Handles an event about Nodes. Nodes of other hosts are ignored.
    pub fn node(&mut self, event: SourceEvent<impl Borrow<NodeObject>>) {
        match event {
            SourceEvent::Listing => {
                self.has_node = false;
                self.changes.send_both(SourceChange::Listing(Kind::Node));
            }
            SourceEvent::Listed => {
                // The Node may have been deleted while there was no watch.
                if !self.has_node {
                    self.log_missing_node();
                    self.changes.send_both(Change::Node(None));
                }
                self.changes.send_both(Change::Listed(Kind::Node));
            }
            SourceEvent::Set(object) => {
                let object = object.borrow();
                if !self.accepts_node(&object.metadata.name) {
                    return;
                }
                self.has_node = true;
                let (node, diagnostics) = ingest::node(object);
                log(diagnostics);
                self.changes.send_both(Change::Node(Some(Box::new(node))));
            }
            SourceEvent::Deleted(name) => {
                if !self.accepts_node(&name.name) {
                    return;
                }
                tracing::warn!(
                    node = %self.node_name,
                    "this Node was deleted: zone hints of EndpointSlices and node addresses are no \
                     longer used",
                );
                self.changes.send_both(Change::Node(None));
            }
        }
    }

    /// Keeps the last known state of an object that exists and cannot be decoded: marks it, so that
    /// the end of the list does not delete it. A Service or EndpointSlice needs a name for that.
    pub fn keep(&mut self, kind: Kind, namespace: &str, name: &str) {
        match kind {
            Kind::Service => {
                self.changes
                    .send_both(SourceChange::ServiceKept(ServiceName::new(namespace, name)));
            }
            Kind::EndpointSlice => {
                self.changes
                    .send_both(SourceChange::SliceKept(SliceName::new(namespace, name)));
            }
            // A name that cannot be decoded is that of this node: an API server sends no other
            // Node.
            Kind::Node => self.has_node |= name.is_empty() || name == &*self.node_name,
        }
    }

    /// Reports whether a Node with this name may be used: another Node must not replace the zone
    /// and addresses of this one.
    fn accepts_node(&mut self, name: &str) -> bool {
        let is_this = name == &*self.node_name;
        if !is_this {
            tracing::warn!(
                node = %self.node_name,
                other = %name.escape_debug(),
                "ignored an event about another Node; check that the configured address is an API server",
            );
        }
        is_this
    }

    /// Logs once that the Node of this host does not exist, which may be intended: local endpoints
    /// are recognized by the name of the node, which is known without the object.
    fn log_missing_node(&mut self) {
        if !self.has_logged_missing_node {
            self.has_logged_missing_node = true;
            let node = &self.node_name;
            tracing::warn!(
                %node,
                "Node not found: zone hints of EndpointSlices and node addresses are not used; if \
                 the Node of this host has another name, set --hostname-override",
            );
        }
    }

    fn set_service(&mut self, object: &ServiceObject) {
        let (name, services, diagnostics) = ingest::service(object, &mut self.interner);
        log(diagnostics);
        for (family, service) in services.into_pairs() {
            let change = Change::Service(name.clone(), service.map(Box::new));
            self.changes.send(family, change);
        }
    }

    /// Sends a slice to its family. A slice without the label `kubernetes.io/service-name` counts
    /// as deleted.
    ///
    /// Differs from upstream: kube-proxy keeps such a slice for the Service that the label named
    /// last.
    fn set_slice(&mut self, object: &EndpointSliceObject) {
        let ingested = ingest::endpoint_slice(object, &self.node_name, &mut self.interner);
        log(ingested.diagnostics);
        if let Some(family) = ingested.family {
            let slice = ingested.slice.map(Box::new);
            let change = Change::Slice(ingested.name, slice, ingested.trigger);
            self.changes.send(family, change);
        }
    }
}

fn log(diagnostics: Vec<Diagnostic>) {
    for diagnostic in diagnostics {
        let Diagnostic {
            kind,
            object,
            field,
            problem,
        } = diagnostic;
        let kind = kind.as_str();
        tracing::warn!(%kind, %object, %field, %problem, "invalid or unsupported field");
    }
}

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
