//! Services of which manifests lack a part because of errors.
//!
//! Their author meant them to be there: a comparison must not show them as removed.

use std::collections::BTreeSet;

use super::parse::{FileContent, is_helm_template};
use super::text;
use crate::ingest::{Metadata, ObjectName, SERVICE_NAME_LABEL};

/// Services of which manifests lack the object or an EndpointSlice, because of errors.
#[derive(Debug, Clone, Default)]
pub(crate) struct IncompleteServices {
    /// Services that are known to lack something: one of their objects has errors, or is in a file
    /// that is unusable.
    known: BTreeSet<ObjectName>,
    /// Files that may have had objects of further Services.
    unusable: Vec<UnusableText>,
    /// Services that have an object and an EndpointSlice without errors: it is assumed that they
    /// have nothing in the lost part of a text.
    complete: BTreeSet<ObjectName>,
}

impl IncompleteServices {
    /// Takes the Services that are known to be incomplete.
    pub(super) fn of_names(known: BTreeSet<ObjectName>) -> Self {
        Self {
            known,
            ..Self::default()
        }
    }

    /// Returns the incomplete Services of manifests, by the content of their usable files and the
    /// words of their unusable ones.
    pub(super) fn of<'c>(
        files: impl Iterator<Item = &'c FileContent> + Clone,
        unusable: Vec<UnusableText>,
    ) -> Self {
        let services = files.clone().flat_map(service_names);
        let with_slices: BTreeSet<_> = files.clone().flat_map(slice_services).collect();
        Self {
            known: files.flat_map(invalid_services).collect(),
            unusable,
            complete: services.filter(|one| with_slices.contains(one)).collect(),
        }
    }

    /// Reports whether no Service is incomplete.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.unusable.is_empty()
    }

    /// Reports whether a Service is incomplete, or may be.
    pub(crate) fn contains(&self, namespace: &str, service: &str) -> bool {
        let name = ObjectName {
            namespace: namespace.to_owned(),
            name: service.to_owned(),
        };
        let is_complete = self.complete.contains(&name);
        let mut unusable = self.unusable.iter();
        self.known.contains(&name)
            || unusable.any(|text| text.mentions(service) || text.is_partial && !is_complete)
    }
}

/// Words of a file that cannot be used.
#[derive(Debug, Clone)]
pub(super) struct UnusableText {
    /// Words, among them the names of all objects; empty if the text names neither kind, Service or
    /// EndpointSlice.
    words: BTreeSet<String>,
    /// The file may have objects that its text does not name.
    is_partial: bool,
    /// The file may have Pod templates.
    pub(super) may_have_pod_templates: bool,
}

impl UnusableText {
    /// Returns the words of a file whose text is unknown.
    pub(super) const fn unknown() -> Self {
        Self {
            words: BTreeSet::new(),
            is_partial: true,
            may_have_pod_templates: true,
        }
    }

    /// Reads the words of a text. `error_line` is the line of its syntax error, counted from 1: one
    /// at the end shows that the text ends too early. (One in an open quote or bracket does not.)
    /// The names in a Helm template are unknown.
    pub(super) fn of(text: &[u8], error_line: Option<u64>) -> Self {
        let Some(text) = text::decode(text) else {
            return Self::unknown();
        };
        let is_in_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        let words = text.split(|letter| !is_in_word(letter));
        let mut words: BTreeSet<String> = words.map(str::to_owned).collect();
        let lines = text.lines().count() as u64;
        let is_partial = error_line.is_some_and(|line| line >= lines) || is_helm_template(&text);
        let may_have_pod_templates = is_partial || words.contains("containers");
        let kinds = [
            "Service",
            "ServiceList",
            "EndpointSlice",
            "EndpointSliceList",
        ];
        if !kinds.into_iter().any(|kind| words.contains(kind)) {
            words.clear();
        }
        Self {
            words,
            is_partial,
            may_have_pod_templates,
        }
    }

    fn mentions(&self, service: &str) -> bool {
        self.words.contains(service)
    }
}

/// Returns the Services that have an invalid or undecodable object in a file.
pub(super) fn invalid_services(file: &FileContent) -> impl Iterator<Item = ObjectName> {
    let invalid = file.invalid.iter().map(|(_, object)| {
        let namespace = &object.name.namespace;
        (namespace, &object.service)
    });
    let undecodable = file.undecodable.iter();
    let undecodable = undecodable.map(|object| (&object.namespace, &object.service));
    invalid
        .chain(undecodable)
        .filter_map(|(namespace, service)| {
            Some(ObjectName {
                namespace: namespace.clone(),
                name: service.clone()?,
            })
        })
}

/// Returns the names of the Services in a file.
pub(super) fn service_names(file: &FileContent) -> impl Iterator<Item = ObjectName> {
    let services = file.services.iter().map(|one| &one.metadata);
    services.map(|metadata| service_name(metadata, &metadata.name))
}

/// Returns the names of the Services that a file has endpoints of.
pub(super) fn slice_services(file: &FileContent) -> impl Iterator<Item = ObjectName> {
    let slices = file.endpoint_slices.iter().map(|one| &one.metadata);
    slices.filter_map(|metadata| Some(service_name(metadata, &metadata.label(SERVICE_NAME_LABEL)?)))
}

fn service_name(metadata: &Metadata, service: &str) -> ObjectName {
    ObjectName {
        namespace: metadata.namespace.clone(),
        name: service.to_owned(),
    }
}
