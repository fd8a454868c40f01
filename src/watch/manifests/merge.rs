//! Merges the objects of all files, and selects those that an API server would send to kube-proxy.
//!
//! Separate from reading a file, because duplicates, and cluster IPs that are taken, are known only
//! after all files were read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::files::{ManifestError, ManifestErrorScope};
use super::fill_in::{Assumption, fill_in};
use super::parse::{FaultyObject, FileContent};
use super::validation::Validation;
use crate::ingest::{EndpointSliceObject, Metadata, NodeObject, ServiceObject};
use crate::watch::api::Resource;
use crate::watch::{Ingester, SourceEvent};

/// Settings for reading manifests.
#[derive(Debug, Clone)]
pub(crate) struct ManifestOptions {
    /// Name of the Node of this host.
    pub node_name: Arc<str>,
    /// Services get the load balancer IPs that a controller would report, as by commands.
    pub assumes_load_balancer_ips: bool,
}

/// Objects of manifests, selected as kube-proxy selects them, and sorted by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct Manifests {
    /// Services, each with the cluster IPs and node ports that it needs, unless a range is full.
    pub services: Vec<Arc<ServiceObject>>,
    /// Headless Services, which kube-proxy does not select.
    pub headless: Vec<Arc<ServiceObject>>,
    /// Number of Services that another proxy serves, and that are not headless.
    pub of_other_proxies: usize,
    /// EndpointSlices of Services that are not headless.
    pub endpoint_slices: Vec<Arc<EndpointSliceObject>>,
    /// Node of this host, if the manifests have it.
    pub node: Option<Arc<NodeObject>>,
    pub other_nodes: Vec<Box<str>>,
    /// Number of objects of other kinds.
    pub ignored: usize,
    /// Number of objects with a field of a wrong type that the proxy reads. Their last valid state,
    /// if any, is among the objects above.
    pub undecodable: usize,
    /// Number of fields without effect in objects that are used.
    pub ignored_fields: usize,
    /// Values that were assumed because the manifests do not set them.
    pub assumptions: Vec<Assumption>,
    /// Problems for the author of the manifests, one line each.
    pub notes: Vec<String>,
    /// Files and objects that a command does not use.
    pub errors: Vec<ManifestError>,
}

impl Manifests {
    pub(crate) fn send(&self, ingester: &mut Ingester) {
        ingester.node(SourceEvent::<&NodeObject>::Listing);
        if let Some(node) = &self.node {
            ingester.node(SourceEvent::Set(&**node));
        }
        ingester.node(SourceEvent::<&NodeObject>::Listed);
        ingester.service(SourceEvent::<&ServiceObject>::Listing);
        for service in &self.services {
            ingester.service(SourceEvent::Set(&**service));
        }
        ingester.service(SourceEvent::<&ServiceObject>::Listed);
        ingester.endpoint_slice(SourceEvent::<&EndpointSliceObject>::Listing);
        for slice in &self.endpoint_slices {
            ingester.endpoint_slice(SourceEvent::Set(&**slice));
        }
        ingester.endpoint_slice(SourceEvent::<&EndpointSliceObject>::Listed);
    }

    /// Returns the note about manifests without Services that kube-proxy serves.
    pub(super) fn without_services(&self) -> String {
        let counts = [
            (self.headless.len(), "headless"),
            (
                self.of_other_proxies,
                "with the label service.kubernetes.io/service-proxy-name",
            ),
        ];
        let unserved = counts.into_iter().filter(|(count, _)| *count > 0);
        let unserved: Vec<String> = unserved
            .map(|(count, description)| format!("{count} {description}"))
            .collect();
        let found = if unserved.is_empty() {
            "no Services found".to_owned()
        } else {
            format!(
                "no Services that kube-proxy serves: {}",
                unserved.join(", ")
            )
        };
        let ignored = self.ignored;
        format!("{found}; {ignored} objects of other kinds are ignored")
    }

    /// Sets missing values of the Services, and then removes Services that kube-proxy does not
    /// select. In that order, because their cluster IPs and node ports are taken as well.
    fn fill_in(mut self, options: &ManifestOptions) -> Self {
        let (assumptions, problems) = fill_in(
            &mut self.services,
            is_selected,
            options.assumes_load_balancer_ips,
        );
        self.assumptions.extend(assumptions);
        self.notes.extend(problems);
        let headless = self.services.iter().filter(|one| one.spec.is_headless());
        self.headless = headless.cloned().collect();
        let not_headless = self.services.len() - self.headless.len();
        self.services.retain(|service| is_selected(service));
        self.of_other_proxies = not_headless - self.services.len();
        self
    }

    /// Adds a note about each problem of an object in a file.
    fn add_faulty(&mut self, file: &Path, object: &FaultyObject) {
        let FaultyObject {
            kind,
            name,
            problems,
            ..
        } = object;
        let consequence = if object.is_used {
            self.ignored_fields += problems.len();
            "the field is ignored"
        } else {
            self.undecodable += 1;
            "the object is skipped, and its last valid state, if any, stays in use"
        };
        let file = file.display();
        self.notes.extend(problems.iter().map(|problem| {
            let text = &problem.text;
            format!("{kind} `{name}` in `{file}`: {text}; {consequence}")
        }));
    }

    /// Reports an object that replaces one of an earlier file or document: an error if strict.
    fn add_replaced(&mut self, file: &Path, reason: &str, validation: Validation) {
        let error = ManifestError {
            scope: ManifestErrorScope::Object,
            ..ManifestError::new(file, &reason)
        };
        match validation {
            Validation::Strict => self.errors.push(error),
            Validation::Lenient => self.notes.push(error.to_string()),
        }
    }
}

/// Merges files, and sets missing values. Objects of later files replace those of earlier ones, as
/// an API server stores the last one; with [`Validation::Strict`] each is an error. An undecodable
/// object has the state that it had `before`, with its assumed values, so that no other object gets
/// these.
pub(super) fn merge<'a>(
    files: impl Iterator<Item = (&'a Path, &'a FileContent)> + Clone,
    options: &ManifestOptions,
    validation: Validation,
    before: Option<&'a Manifests>,
) -> Manifests {
    let (mut services, mut slices, mut nodes) =
        (Merged::default(), Merged::default(), Merged::default());
    let mut manifests = Manifests::default();
    let mut endpoints_objects = 0;
    for (file, content) in files.clone() {
        let replaced = services.add_all(file, &content.services);
        let replaced = replaced.chain(slices.add_all(file, &content.endpoint_slices));
        for reason in replaced.chain(nodes.add_all(file, &content.nodes)) {
            manifests.add_replaced(file, &reason, validation);
        }
        manifests.ignored += content.ignored;
        endpoints_objects += content.endpoints_objects;
        for object in &content.faulty {
            manifests.add_faulty(file, object);
        }
    }
    if let Some(before) = before {
        let undecodable = files.flat_map(|(_, content)| &content.faulty);
        for object in undecodable.filter(|object| !object.is_used) {
            services.keep(object, &before.services);
            slices.keep(object, &before.endpoint_slices);
            nodes.keep(object, before.node.as_slice());
        }
    }
    manifests.services = services.into_objects().collect();
    manifests.endpoint_slices = slices
        .into_objects()
        .filter(|slice| !has_label(&slice.metadata, "service.kubernetes.io/headless"))
        .collect();
    for node in nodes.into_objects() {
        if *node.metadata.name == *options.node_name {
            manifests.node = Some(node);
        } else {
            manifests
                .other_nodes
                .push(node.metadata.name.as_str().into());
        }
    }
    if endpoints_objects > 0 {
        manifests.notes.push(format!(
            "{endpoints_objects} Endpoints are ignored: rules come from EndpointSlices"
        ));
    }
    manifests.fill_in(options)
}

fn is_selected(service: &ServiceObject) -> bool {
    !service.spec.is_headless()
        && !has_label(
            &service.metadata,
            "service.kubernetes.io/service-proxy-name",
        )
}

fn has_label(metadata: &Metadata, label: &str) -> bool {
    metadata.label(label).is_some()
}

/// Merged objects of one kind by namespace and name, with the file of each.
#[derive(Default)]
struct Merged<'a, K> {
    objects: BTreeMap<(&'a str, &'a str), (&'a Path, &'a Arc<K>)>,
}

impl<'a, K: Resource> Merged<'a, K> {
    fn key(object: &'a Arc<K>) -> (&'a str, &'a str) {
        let metadata = object.metadata();
        (&metadata.namespace, &metadata.name)
    }

    /// Adds the objects of a file. Returns a text for each that replaces another one.
    fn add_all(&mut self, file: &'a Path, objects: &'a [Arc<K>]) -> impl Iterator<Item = String> {
        objects.iter().filter_map(move |object| {
            let (earlier, _) = self.objects.insert(Self::key(object), (file, object))?;
            let (kind, name) = (K::KIND, object.metadata().object_name());
            let earlier = earlier.display();
            Some(format!("{kind} `{name}` replaces the one in `{earlier}`"))
        })
    }

    /// Adds an undecodable object, if it is of this kind, with its state in `before`, which is
    /// sorted.
    fn keep(&mut self, undecodable: &FaultyObject, before: &'a [Arc<K>]) {
        let FaultyObject { kind, name, .. } = undecodable;
        let wanted = (&*name.namespace, &*name.name);
        let found = before.binary_search_by(|object| Self::key(object).cmp(&wanted));
        let found = found.ok().and_then(|index| before.get(index));
        if let Some(object) = found.filter(|_| kind == K::KIND) {
            let nowhere = Path::new("");
            let key = Self::key(object);
            self.objects.entry(key).or_insert((nowhere, object));
        }
    }

    fn into_objects(self) -> impl Iterator<Item = Arc<K>> + use<'a, K> {
        self.objects
            .into_values()
            .map(|(_, object)| Arc::clone(object))
    }
}
