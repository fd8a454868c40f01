//! Changes that wait to be taken, at most one for each object however many events arrive.
//!
//! Kept separate from [`Tracker`](super::Tracker), which a sync reads for as long as its restore
//! runs: what the cluster says meanwhile waits here, and a restore that hangs must not cost memory
//! for every event.
//!
//! # Invariants
//!
//! - Applying what is taken leaves a tracker in the state that every event, one by one, would have.
//! - Memory follows the number of objects: those that exist, and those of which the tracker still
//!   has to hear that they are gone.
//! - A list is resolved here. The tracker is given removals in place of objects that were not
//!   listed, and [`Change::Listed`], never [`Change::Listing`].

use super::objects::{Objects, Pending};
use crate::model::{Change, Kind, Node, Service, ServiceName, Slice, SliceName};

/// Changes of one family that the tracker has not been given yet.
#[derive(Debug, Default)]
pub struct ChangeQueue {
    services: Objects<ServiceName, Service>,
    slices: Objects<SliceName, Slice>,
    node: NodeQueue,
    /// Kinds of which a list has been completed.
    listed: Vec<Kind>,
    /// Number of changes so far: the order of what waits.
    arrived: u64,
}

/// What waits of the Node object.
#[derive(Debug, Default)]
struct NodeQueue {
    /// The last state, and its place in the order.
    set: Option<(u64, Box<Node>)>,
    /// The place of a removal after it.
    removed: Option<u64>,
}

impl ChangeQueue {
    /// Adds a change in place of an earlier one of the same object. Returns the kind of the object
    /// that changed, for counting; `None` for the Node and for marks of lists, and for the removal
    /// of a slice that this family never had.
    pub fn push(&mut self, change: Change) -> Option<Kind> {
        self.arrived += 1;
        let at = self.arrived;
        match change {
            Change::Service(name, service) => {
                match service {
                    Some(service) => self.services.set(at, name, (service, None), |_, _| true),
                    None => drop(self.services.remove(at, &name)),
                }
                return Some(Kind::Service);
            }
            Change::Slice(name, Some(slice), trigger) => {
                self.slices
                    .set(at, name, (slice, trigger), is_of_one_service);
                return Some(Kind::EndpointSlice);
            }
            Change::Slice(name, None, _) => {
                let was_known = self.slices.remove(at, &name);
                return was_known.then_some(Kind::EndpointSlice);
            }
            Change::ServiceKept(name) => self.services.keep(&name),
            Change::SliceKept(name) => self.slices.keep(&name),
            Change::Node(node) => self.node.push(at, node),
            Change::Listing(kind) => self.begin(kind),
            Change::Listed(kind) => self.complete(kind),
        }
        None
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.services.is_empty()
            && self.slices.is_empty()
            && self.node.set.is_none()
            && self.node.removed.is_none()
            && self.listed.is_empty()
    }

    /// Takes all that waits: each object in the order of its last event, and a removal before the
    /// object that has come back since.
    pub fn take(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, pending) in self.services.take() {
            changes.push((pending.at, Change::Service(name, pending.value)));
        }
        for (name, pending) in self.slices.take() {
            let Pending {
                at, value, trigger, ..
            } = pending;
            if pending.is_new_object {
                changes.push((at, Change::Slice(name.clone(), None, None)));
            }
            changes.push((at, Change::Slice(name, value, trigger.time())));
        }
        let node = std::mem::take(&mut self.node);
        changes.extend(node.set.map(|(at, node)| (at, Change::Node(Some(node)))));
        changes.extend(node.removed.map(|at| (at, Change::Node(None))));
        // Stable: a removal stays in front of what came back at the same place.
        changes.sort_by_key(|(at, _)| *at);
        let listed = std::mem::take(&mut self.listed);
        let changes = changes.into_iter().map(|(_, change)| change);
        changes
            .chain(listed.into_iter().map(Change::Listed))
            .collect()
    }

    fn begin(&mut self, kind: Kind) {
        match kind {
            Kind::Service => self.services.begin_list(),
            Kind::EndpointSlice => self.slices.begin_list(),
            Kind::Node => {}
        }
    }

    fn complete(&mut self, kind: Kind) {
        match kind {
            Kind::Service => self.services.complete_list(self.arrived),
            Kind::EndpointSlice => self.slices.complete_list(self.arrived),
            Kind::Node => {}
        }
        if !self.listed.contains(&kind) {
            self.listed.push(kind);
        }
    }
}

impl NodeQueue {
    /// A Node that is made anew without addresses has those of the one before, as in the tracker.
    fn push(&mut self, at: u64, node: Option<Box<Node>>) {
        if let Some(mut node) = node {
            if let Some((_, earlier)) = self.set.take()
                && node.addresses.is_empty()
            {
                node.addresses = earlier.addresses;
            }
            self.set = Some((at, node));
            self.removed = None;
        } else {
            self.removed = Some(at);
        }
    }
}

/// Whether a time measured for the earlier state of a slice is one of its Service still.
fn is_of_one_service(earlier: &Slice, now: &Slice) -> bool {
    earlier.service == now.service
}
