//! All files together, as the API server would show them to kube-proxy.
//!
//! Apart from reading because what two files say of one object, and which addresses are taken,
//! can only be told once all are read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::ManifestOptions;
use super::cluster_ip::Allocator;
use super::defaults;
use super::document::Unreadable;
use super::parse::Content;
use crate::ingest::{EndpointSliceObject, Metadata, NodeObject, ServiceObject};
use crate::model::Kind;
use crate::watch::{Observed, Outlet, Sink};

/// The objects that manifests describe, selected as kube-proxy selects them, sorted by namespace
/// and name.
#[derive(Debug, Default)]
pub struct Manifests {
    /// Services, each with a cluster IP unless it is headless or the range is full.
    pub services: Vec<Arc<ServiceObject>>,
    /// Headless Services, which kube-proxy does not ask for.
    pub headless: Vec<Arc<ServiceObject>>,
    /// EndpointSlices.
    pub endpoint_slices: Vec<Arc<EndpointSliceObject>>,
    /// The Node called as we are, if it is described.
    pub node: Option<Arc<NodeObject>>,
    /// The names of all other Nodes that are described.
    pub other_nodes: Vec<Box<str>>,
    /// How many objects of other kinds there were.
    pub ignored: usize,
    /// Objects that could not be read: what is known of them stands.
    unreadable: Vec<Unreadable>,
    /// What whoever wrote the manifests should know, one line each.
    pub notes: Vec<String>,
}

impl Manifests {
    /// Sends everything as one complete list of each kind.
    pub fn send<S: Sink>(&self, outlet: &mut Outlet<S>) {
        outlet.node(Observed::<&NodeObject>::Listing);
        if let Some(node) = &self.node {
            outlet.node(Observed::Set(&**node));
        }
        outlet.node(Observed::<&NodeObject>::Listed);
        outlet.service(Observed::<&ServiceObject>::Listing);
        for service in &self.services {
            outlet.service(Observed::Set(&**service));
        }
        self.keep(Kind::Service, outlet);
        outlet.service(Observed::<&ServiceObject>::Listed);
        outlet.endpoint_slice(Observed::<&EndpointSliceObject>::Listing);
        for slice in &self.endpoint_slices {
            outlet.endpoint_slice(Observed::Set(&**slice));
        }
        self.keep(Kind::EndpointSlice, outlet);
        outlet.endpoint_slice(Observed::<&EndpointSliceObject>::Listed);
    }

    fn keep<S: Sink>(&self, kind: Kind, outlet: &mut Outlet<S>) {
        for object in self.unreadable.iter().filter(|object| object.kind == kind) {
            outlet.keep(kind, &object.namespace, &object.name);
        }
    }
}

/// Puts files together, given in the order in which later ones override earlier ones.
pub(super) fn merge<'a>(
    files: impl IntoIterator<Item = (&'a Path, &'a Content)>,
    options: &ManifestOptions,
) -> Manifests {
    let mut services = Merged::new(Kind::Service);
    let mut slices = Merged::new(Kind::EndpointSlice);
    let mut nodes = Merged::new(Kind::Node);
    let mut manifests = Manifests::default();
    for (file, content) in files {
        services.add_all(
            file,
            &content.services,
            |one| &one.metadata,
            &mut manifests.notes,
        );
        slices.add_all(
            file,
            &content.endpoint_slices,
            |one| &one.metadata,
            &mut manifests.notes,
        );
        nodes.add_all(
            file,
            &content.nodes,
            |one| &one.metadata,
            &mut manifests.notes,
        );
        manifests.ignored += content.ignored;
        for object in &content.unreadable {
            let (kind, file) = (object.kind.as_str(), file.display());
            let Unreadable {
                namespace,
                name,
                reason,
                ..
            } = object;
            manifests.notes.push(format!(
                "{kind} `{namespace}/{name}` in `{file}`: {reason}; the object is skipped"
            ));
            manifests.unreadable.push(object.clone());
        }
    }
    let services: Vec<_> = services.into_objects().collect();
    let headless = services.iter().filter(|one| is_headless(one));
    manifests.headless = headless.cloned().collect();
    manifests.services = select_services(services, options, &mut manifests.notes);
    manifests.endpoint_slices = slices
        .into_objects()
        .filter(|slice| !has_label(&slice.metadata, "service.kubernetes.io/headless"))
        .collect();
    for node in nodes.into_objects() {
        if node.metadata.name == *options.node_name {
            manifests.node = Some(node);
        } else {
            manifests
                .other_nodes
                .push(node.metadata.name.as_str().into());
        }
    }
    manifests
}

fn is_headless(service: &ServiceObject) -> bool {
    service.spec.cluster_ip == "None"
}

/// Left-out Services keep their addresses: another proxy may serve them.
fn select_services(
    mut services: Vec<Arc<ServiceObject>>,
    options: &ManifestOptions,
    notes: &mut Vec<String>,
) -> Vec<Arc<ServiceObject>> {
    let taken = defaults::written_ips(services.iter().map(|service| &service.spec));
    let mut allocator = Allocator::new(options.service_ranges, taken);
    services.retain(|service| {
        !is_headless(service)
            && !has_label(
                &service.metadata,
                "service.kubernetes.io/service-proxy-name",
            )
    });
    for service in &mut services {
        if !defaults::cluster_ips(service, &mut allocator) {
            let Metadata {
                namespace, name, ..
            } = &service.metadata;
            notes.push(format!(
                "Service `{namespace}/{name}`: no cluster IP is left for it"
            ));
        }
    }
    services
}

fn has_label(metadata: &Metadata, label: &str) -> bool {
    metadata.label(label).is_some()
}

/// The objects of one kind by namespace and name, with the file each is from.
struct Merged<'a, T> {
    kind: Kind,
    objects: BTreeMap<(&'a str, &'a str), (&'a Path, &'a Arc<T>)>,
}

impl<'a, T> Merged<'a, T> {
    const fn new(kind: Kind) -> Self {
        Self {
            kind,
            objects: BTreeMap::new(),
        }
    }

    fn add_all(
        &mut self,
        file: &'a Path,
        objects: &'a [Arc<T>],
        metadata: impl Fn(&'a T) -> &'a Metadata,
        notes: &mut Vec<String>,
    ) {
        for object in objects {
            let Metadata {
                namespace, name, ..
            } = metadata(object);
            let Some((earlier, _)) = self.objects.insert((namespace, name), (file, object)) else {
                continue;
            };
            let kind = self.kind.as_str();
            let (earlier, file) = (earlier.display(), file.display());
            notes.push(format!(
                "{kind} `{namespace}/{name}` of `{file}` replaces the one of `{earlier}`"
            ));
        }
    }

    fn into_objects(self) -> impl Iterator<Item = Arc<T>> + use<'a, T> {
        self.objects
            .into_values()
            .map(|(_, object)| Arc::clone(object))
    }
}
