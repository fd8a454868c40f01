//! Turns what a source observed into changes for each family.
//!
//! Apart from the sources because all of them end here, and because this is where the diagnostics
//! of [`ingest`](crate::ingest) become log lines.

use std::borrow::Borrow;
use std::sync::Arc;

use super::observed::Observed;
use super::said::Said;
use crate::ingest::{self, EndpointSliceObject, Interner, NodeObject, ServiceObject};
use crate::model::{Change, Kind, ServiceName, SliceName};
use crate::net::{IpFamily, PerFamily};

/// Where changes go.
pub trait Sink {
    /// Takes one change of one family, in order.
    fn send(&mut self, family: IpFamily, change: Change);
}

/// For commands that look once.
impl Sink for PerFamily<Vec<Change>> {
    fn send(&mut self, family: IpFamily, change: Change) {
        self.get_mut(family).push(change);
    }
}

/// Ingests objects, logs what was ignored in them, and passes on what they mean.
#[derive(Debug)]
pub struct Outlet<S> {
    sink: S,
    node_name: Arc<str>,
    interner: Interner,
    said: Said,
    /// The list under way, or else the last one, has this node.
    has_node: bool,
    has_missed_node: bool,
    has_ignored_node: bool,
}

impl<S: Sink> Outlet<S> {
    /// An outlet into `sink` on the node called `node_name`.
    pub fn new(sink: S, node_name: Arc<str>) -> Self {
        Self {
            sink,
            node_name,
            interner: Interner::default(),
            said: Said::default(),
            has_node: false,
            has_missed_node: false,
            has_ignored_node: false,
        }
    }

    /// An outlet for who looks once, and says what is missing when everything is there.
    pub fn once(sink: S, node_name: Arc<str>) -> Self {
        Self {
            has_missed_node: true,
            ..Self::new(sink, node_name)
        }
    }

    /// What was sent, once nothing more is to come.
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// A Service was observed.
    pub fn service(&mut self, observed: Observed<impl Borrow<ServiceObject>>) {
        match observed {
            Observed::Listing => self.send_both(&Change::Listing(Kind::Service)),
            Observed::Listed => self.send_both(&Change::Listed(Kind::Service)),
            Observed::Set(object) => self.set_service(object.borrow()),
            Observed::Gone(object) => {
                let metadata = &object.borrow().metadata;
                self.said
                    .forget(Kind::Service, &metadata.namespace, &metadata.name);
                let name = ServiceName::new(&metadata.namespace, &metadata.name);
                self.send_both(&Change::Service(name, None));
            }
        }
    }

    /// An EndpointSlice was observed.
    pub fn endpoint_slice(&mut self, observed: Observed<impl Borrow<EndpointSliceObject>>) {
        match observed {
            Observed::Listing => self.send_both(&Change::Listing(Kind::EndpointSlice)),
            Observed::Listed => self.send_both(&Change::Listed(Kind::EndpointSlice)),
            Observed::Set(object) => self.set_slice(object.borrow()),
            // To both families: the last known state may lack the address type, and removing what
            // a family never had changes nothing.
            Observed::Gone(object) => {
                let metadata = &object.borrow().metadata;
                self.said
                    .forget(Kind::EndpointSlice, &metadata.namespace, &metadata.name);
                let name = SliceName::new(&metadata.namespace, &metadata.name);
                self.send_both(&Change::Slice(name, None, None));
            }
        }
    }

    /// A Node was observed: this one, or another that was not asked for and is ignored.
    pub fn node(&mut self, observed: Observed<impl Borrow<NodeObject>>) {
        match observed {
            Observed::Listing => {
                self.has_node = false;
                self.send_both(&Change::Listing(Kind::Node));
            }
            Observed::Listed => {
                // It may have been deleted while nobody watched.
                if !self.has_node {
                    self.say_node_is_missing();
                    self.send_both(&Change::Node(None));
                }
                self.send_both(&Change::Listed(Kind::Node));
            }
            Observed::Set(object) => {
                let object = object.borrow();
                if !self.is_this_node(&object.metadata.name) {
                    return;
                }
                self.has_node = true;
                let (node, diagnostics) = ingest::node(object);
                let metadata = &object.metadata;
                self.said
                    .log(Kind::Node, &metadata.namespace, &metadata.name, diagnostics);
                self.send_both(&Change::Node(Some(Box::new(node))));
            }
            Observed::Gone(object) => {
                let metadata = &object.borrow().metadata;
                if !self.is_this_node(&metadata.name) {
                    return;
                }
                self.said
                    .forget(Kind::Node, &metadata.namespace, &metadata.name);
                tracing::warn!(node = %self.node_name, "this Node is gone; its rules stay");
                self.send_both(&Change::Node(None));
            }
        }
    }

    /// An object exists and cannot be read: what was last known of it stands.
    pub fn keep(&mut self, kind: Kind, namespace: &str, name: &str) {
        match kind {
            Kind::Service => {
                self.send_both(&Change::ServiceKept(ServiceName::new(namespace, name)));
            }
            Kind::EndpointSlice => {
                self.send_both(&Change::SliceKept(SliceName::new(namespace, name)));
            }
            // Without a readable name it may be this one, since no other was asked for.
            Kind::Node => self.has_node |= name.is_empty() || name == &*self.node_name,
        }
    }

    /// Compares the name with that of this node. Logs the first one that differs: its zone and
    /// addresses must not replace those of this node, and its deletion means nothing here.
    fn is_this_node(&mut self, name: &str) -> bool {
        let is_this = name == &*self.node_name;
        if !is_this && !self.has_ignored_node {
            self.has_ignored_node = true;
            tracing::warn!(
                node = %self.node_name,
                other = %name.escape_debug(),
                "ignored an event of another Node; check what answers in place of the API server",
            );
        }
        is_this
    }

    /// Zone hints and the node's addresses count for nothing without it, and endpoints here are
    /// known only by its name. Said once, since it may well be meant.
    fn say_node_is_missing(&mut self) {
        if !self.has_missed_node {
            self.has_missed_node = true;
            let node = &self.node_name;
            tracing::warn!(%node, "there is no such Node; if it has another name, set --hostname-override");
        }
    }

    fn set_service(&mut self, object: &ServiceObject) {
        let (name, services, diagnostics) = ingest::service(object, &mut self.interner);
        let metadata = &object.metadata;
        self.said.log(
            Kind::Service,
            &metadata.namespace,
            &metadata.name,
            diagnostics,
        );
        for (family, service) in services.into_pairs() {
            let change = Change::Service(name.clone(), service.map(Box::new));
            self.sink.send(family, change);
        }
    }

    /// A slice that has lost its Service is as good as gone.
    ///
    /// Differs from upstream: there it stays with the Service that its label named last.
    fn set_slice(&mut self, object: &EndpointSliceObject) {
        let ingested = ingest::endpoint_slice(object, &self.node_name, &mut self.interner);
        let metadata = &object.metadata;
        self.said.log(
            Kind::EndpointSlice,
            &metadata.namespace,
            &metadata.name,
            ingested.diagnostics,
        );
        if let Some(family) = ingested.family {
            let slice = ingested.slice.map(Box::new);
            let change = Change::Slice(ingested.name, slice, ingested.trigger);
            self.sink.send(family, change);
        }
    }

    fn send_both(&mut self, change: &Change) {
        for family in IpFamily::ALL {
            self.sink.send(family, change.clone());
        }
    }
}
