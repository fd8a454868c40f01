//! Turns the events of a source into changes for each IP family, and logs the diagnostics of
//! [`ingest`](crate::ingest): invalid and unsupported fields.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::change_channel::ChangeSenders;
use crate::ingest::{self, Diagnostic, EndpointSliceObject, Interner, NodeObject, ServiceObject};
use crate::model::{Change, Kind, ServiceName, SliceName, SourceChange};

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
    /// The object was deleted, or is no longer selected. This is its last known state, of which
    /// only the name is reliable.
    Deleted(K),
    /// The list is complete (`InitDone` of kube-rs): sweeps, that is, deletes the objects that were
    /// neither set nor [kept](Ingester::keep) since [`SourceEvent::Listing`].
    Listed,
}

/// Turns events into changes, sends them, and logs the diagnostics of each object once.
pub struct Ingester {
    changes: ChangeSenders,
    node_name: Arc<str>,
    interner: Interner,
    reported: ReportedDiagnostics,
    /// The list of Nodes that is being read has the Node of this host.
    has_node: bool,
    has_logged_missing_node: bool,
    has_logged_other_node: bool,
}

impl Ingester {
    /// Returns an ingester for the daemon on the node called `node_name`.
    pub fn new(changes: ChangeSenders, node_name: Arc<str>) -> Self {
        Self {
            changes,
            node_name,
            interner: Interner::default(),
            reported: ReportedDiagnostics::default(),
            has_node: false,
            has_logged_missing_node: false,
            has_logged_other_node: false,
        }
    }

    /// Returns an ingester for a command. Does not log a missing Node: the command reports it.
    pub fn for_command(changes: ChangeSenders, node_name: Arc<str>) -> Self {
        Self {
            has_logged_missing_node: true,
            ..Self::new(changes, node_name)
        }
    }

    /// Handles an event about Services.
    pub fn service(&mut self, event: SourceEvent<impl Borrow<ServiceObject>>) {
        match event {
            SourceEvent::Listing => self.begin_list(Kind::Service),
            SourceEvent::Listed => self.finish_list(Kind::Service),
            SourceEvent::Set(object) => self.set_service(object.borrow()),
            SourceEvent::Deleted(object) => {
                let metadata = &object.borrow().metadata;
                self.reported
                    .forget(Kind::Service, &metadata.namespace, &metadata.name);
                let name = ServiceName::new(&metadata.namespace, &metadata.name);
                self.changes.send_both(Change::Service(name, None));
            }
        }
    }

    /// Handles an event about EndpointSlices.
    pub fn endpoint_slice(&mut self, event: SourceEvent<impl Borrow<EndpointSliceObject>>) {
        match event {
            SourceEvent::Listing => self.begin_list(Kind::EndpointSlice),
            SourceEvent::Listed => self.finish_list(Kind::EndpointSlice),
            SourceEvent::Set(object) => self.set_slice(object.borrow()),
            // To both families: the last known state may lack the address type, and removing a
            // slice that a family never had changes nothing.
            SourceEvent::Deleted(object) => {
                let metadata = &object.borrow().metadata;
                self.reported
                    .forget(Kind::EndpointSlice, &metadata.namespace, &metadata.name);
                let name = SliceName::new(&metadata.namespace, &metadata.name);
                self.changes.send_both(Change::Slice(name, None, None));
            }
        }
    }

    /// Handles an event about Nodes. Nodes of other hosts are ignored.
    pub fn node(&mut self, event: SourceEvent<impl Borrow<NodeObject>>) {
        match event {
            SourceEvent::Listing => {
                self.has_node = false;
                self.begin_list(Kind::Node);
            }
            SourceEvent::Listed => {
                // The Node may have been deleted while there was no watch.
                if !self.has_node {
                    self.log_missing_node();
                    self.changes.send_both(Change::Node(None));
                }
                self.finish_list(Kind::Node);
            }
            SourceEvent::Set(object) => {
                let object = object.borrow();
                if !self.accepts_node(&object.metadata.name) {
                    return;
                }
                self.has_node = true;
                let (node, diagnostics) = ingest::node(object);
                let metadata = &object.metadata;
                self.reported
                    .log(Kind::Node, &metadata.namespace, &metadata.name, diagnostics);
                self.changes.send_both(Change::Node(Some(Box::new(node))));
            }
            SourceEvent::Deleted(object) => {
                let metadata = &object.borrow().metadata;
                if !self.accepts_node(&metadata.name) {
                    return;
                }
                self.reported
                    .forget(Kind::Node, &metadata.namespace, &metadata.name);
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
        self.reported.keep(kind, namespace, name);
        match kind {
            Kind::Service => {
                self.changes
                    .send_both(SourceChange::ServiceKept(ServiceName::new(namespace, name)));
            }
            Kind::EndpointSlice => {
                self.changes
                    .send_both(SourceChange::SliceKept(SliceName::new(namespace, name)));
            }
            // A name that cannot be decoded may be that of this node. An API server sends no other
            // Node. Manifests may have others, but an outdated Node is better than none.
            Kind::Node => self.has_node |= name.is_empty() || name == &*self.node_name,
        }
    }

    fn begin_list(&mut self, kind: Kind) {
        self.reported.begin_list(kind);
        self.changes.send_both(SourceChange::Listing(kind));
    }

    fn finish_list(&mut self, kind: Kind) {
        self.reported.finish_list(kind);
        self.changes.send_both(Change::Listed(kind));
    }

    /// Reports whether a Node with this name may be used: another Node must not replace the zone
    /// and addresses of this one. Logs the first other Node.
    fn accepts_node(&mut self, name: &str) -> bool {
        let is_this = name == &*self.node_name;
        if !is_this && !self.has_logged_other_node {
            self.has_logged_other_node = true;
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
        let metadata = &object.metadata;
        self.reported.log(
            Kind::Service,
            &metadata.namespace,
            &metadata.name,
            diagnostics,
        );
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
        let metadata = &object.metadata;
        self.reported.log(
            Kind::EndpointSlice,
            &metadata.namespace,
            &metadata.name,
            ingested.diagnostics,
        );
        if let Some(family) = ingested.family {
            let slice = ingested.slice.map(Box::new);
            let change = Change::Slice(ingested.name, slice, ingested.trigger);
            self.changes.send(family, change);
        }
    }
}

/// Logged diagnostics of each object, as hashes. Every relist sends every object again, and without
/// this an invalid Service would be logged each time.
///
/// # Invariants
///
/// Holds only objects that exist and whose latest decoded state has diagnostics, and at most
/// [`MAX_REPORTED_OBJECTS`].
#[derive(Debug, Default)]
struct ReportedDiagnostics {
    /// By kind, and the hash of namespace and name.
    objects: HashMap<(Kind, u64), ReportedObject>,
}

/// Logged diagnostics of one object.
#[derive(Debug)]
struct ReportedObject {
    /// The list that is being read has the object. True between lists, unless one has failed.
    is_listed: bool,
    diagnostics: Box<[u64]>,
}

impl ReportedDiagnostics {
    /// Logs those of `diagnostics` that the previous state of the object did not have.
    fn log(&mut self, kind: Kind, namespace: &str, name: &str, diagnostics: Vec<Diagnostic>) {
        for diagnostic in self.unreported(kind, namespace, name, diagnostics) {
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

    /// Forgets a deleted object: if it is created again, its diagnostics are logged again.
    fn forget(&mut self, kind: Kind, namespace: &str, name: &str) {
        self.objects.remove(&(kind, hash((namespace, name))));
    }

    /// Begins a list of a kind: removes the marks of its objects.
    fn begin_list(&mut self, kind: Kind) {
        let objects = self.objects.iter_mut().filter(|((of, _), _)| *of == kind);
        objects.for_each(|(_, object)| object.is_listed = false);
    }

    /// Marks an object that exists and cannot be decoded.
    fn keep(&mut self, kind: Kind, namespace: &str, name: &str) {
        if let Some(object) = self.objects.get_mut(&(kind, hash((namespace, name)))) {
            object.is_listed = true;
        }
    }

    /// Ends a list of a kind: forgets the objects that it does not have.
    fn finish_list(&mut self, kind: Kind) {
        self.objects
            .retain(|(of, _), object| *of != kind || object.is_listed);
    }

    /// Records the diagnostics of an object. Returns those that its previous state did not have.
    fn unreported(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        mut diagnostics: Vec<Diagnostic>,
    ) -> Vec<Diagnostic> {
        let object = (kind, hash((namespace, name)));
        if diagnostics.is_empty() {
            self.objects.remove(&object);
            return diagnostics;
        }
        // Without a limit, invalid objects that are created and deleted between lists would
        // accumulate. Clearing logs some diagnostics again.
        if self.objects.len() >= MAX_REPORTED_OBJECTS && !self.objects.contains_key(&object) {
            self.objects.clear();
        }
        let current = ReportedObject {
            is_listed: true,
            diagnostics: diagnostics.iter().map(hash).collect(),
        };
        if let Some(before) = self.objects.insert(object, current) {
            diagnostics.retain(|diagnostic| !before.diagnostics.contains(&hash(diagnostic)));
        }
        diagnostics
    }
}

/// Maximum objects in [`ReportedDiagnostics`]: about a megabyte.
const MAX_REPORTED_OBJECTS: usize = 8192;

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::change_channels;

    /// Returns the problems of `shop/<name>` that are logged.
    fn logged(reported: &mut ReportedDiagnostics, name: &str, problems: &[&str]) -> Vec<String> {
        let diagnostics = problems.iter().map(|&problem| Diagnostic {
            kind: Kind::Service,
            object: format!("shop/{name}"),
            field: "spec".into(),
            problem: problem.into(),
        });
        let unreported = reported.unreported(Kind::Service, "shop", name, diagnostics.collect());
        unreported.into_iter().map(|one| one.problem).collect()
    }

    #[test]
    fn diagnostics_are_logged_once_while_they_hold() {
        let mut reported = ReportedDiagnostics::default();
        assert_eq!(logged(&mut reported, "a", &["x", "y"]), ["x", "y"]);
        assert!(logged(&mut reported, "a", &["x", "y"]).is_empty());
        assert_eq!(logged(&mut reported, "a", &["x", "z"]), ["z"]);
        assert_eq!(logged(&mut reported, "b", &["x"]), ["x"]);
        // Valid for a while, and then invalid again.
        assert!(logged(&mut reported, "a", &[]).is_empty());
        assert_eq!(logged(&mut reported, "a", &["x"]), ["x"]);
        reported.forget(Kind::Service, "shop", "a");
        assert_eq!(logged(&mut reported, "a", &["x"]), ["x"]);
    }

    #[test]
    fn diagnostics_of_an_object_that_a_list_lacks_are_forgotten() {
        let mut reported = ReportedDiagnostics::default();
        for name in ["listed", "kept", "gone"] {
            logged(&mut reported, name, &["x"]);
        }
        reported.begin_list(Kind::Service);
        logged(&mut reported, "listed", &["x"]);
        // A list of another kind says nothing about Services, nor does one that failed.
        reported.begin_list(Kind::EndpointSlice);
        reported.finish_list(Kind::EndpointSlice);
        assert_eq!(reported.objects.len(), 3);
        reported.begin_list(Kind::Service);
        logged(&mut reported, "listed", &["x"]);
        reported.keep(Kind::Service, "shop", "kept");
        reported.finish_list(Kind::Service);
        assert_eq!(reported.objects.len(), 2);
        assert!(logged(&mut reported, "listed", &["x"]).is_empty());
        assert!(logged(&mut reported, "kept", &["x"]).is_empty());
        assert_eq!(logged(&mut reported, "gone", &["x"]), ["x"]);
    }

    #[test]
    fn an_ingester_forgets_the_diagnostics_of_objects_that_a_list_lacks() {
        let invalid = r#"{"metadata": {"namespace": "shop", "name": "a"},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 70000}]}}"#;
        let invalid: ServiceObject = serde_json::from_str(invalid).unwrap();
        let (senders, _receivers) = change_channels(None);
        let mut ingester = Ingester::new(senders, "here".into());
        for (list, reported) in [(vec![&invalid], 1), (vec![&invalid], 1), (vec![], 0)] {
            ingester.service(SourceEvent::<&ServiceObject>::Listing);
            for one in list {
                ingester.service(SourceEvent::Set(one));
            }
            ingester.service(SourceEvent::<&ServiceObject>::Listed);
            assert_eq!(ingester.reported.objects.len(), reported);
        }
    }

    #[test]
    fn reported_diagnostics_are_bounded() {
        let mut reported = ReportedDiagnostics::default();
        for number in 0..3 * MAX_REPORTED_OBJECTS {
            logged(&mut reported, &number.to_string(), &["x"]);
        }
        assert!(reported.objects.len() <= MAX_REPORTED_OBJECTS);
    }
}
