//! Objects of two sets of manifests, for the fields that no rule shows.

use serde_json::Value;

use super::super::terminal::escaped;
use crate::inspect::diff::{FieldReview, ObjectFields, ObjectKind, Review, SelectorChange};
use crate::model::Kind;
use crate::watch::manifests::{
    ManifestPair, ManifestRanges, RawKind, RawObject, TemplateMatches, assumption_lines,
};

/// Objects of both sides, and the values that both lack. Empty if a side is not manifests.
#[derive(Default)]
pub(super) struct ComparedObjects {
    sides: [Vec<RawObject>; 2],
    selectors: Vec<SelectorChange>,
    assumptions: Vec<String>,
}

impl ComparedObjects {
    pub(super) fn of(pair: &ManifestPair, ranges: &ManifestRanges) -> Self {
        let assumed = [&pair.before, &pair.after].map(|side| side.assumptions.clone());
        let mut sides = pair.objects.clone();
        for objects in &mut sides {
            objects.retain(|object| !is_incomplete(object, pair));
        }
        sides.iter_mut().flatten().for_each(escape);
        let assumptions = assumption_lines(&assumed.concat(), ranges).into_iter();
        Self {
            sides,
            selectors: pair.template_matches.iter().map(selector_change).collect(),
            assumptions: assumptions
                .map(|line| escaped(&line).into_owned())
                .collect(),
        }
    }

    /// Compares the fields of Services and EndpointSlices.
    pub(super) fn review(&self, reviews: &[Review<'_>]) -> FieldReview {
        let [before, after] = &self.sides;
        FieldReview {
            assumptions: self.assumptions.clone(),
            selectors: self.selectors.clone(),
            ..FieldReview::of(&fields(before), &fields(after), reviews)
        }
    }
}

/// Reports whether the Service of an object is not compared, because objects of it are invalid.
fn is_incomplete(object: &RawObject, pair: &ManifestPair) -> bool {
    let service = match object.kind {
        RawKind::Ingested(Kind::Service) => Some(object.name.as_str()),
        RawKind::Ingested(Kind::EndpointSlice) => {
            let label = "/metadata/labels/kubernetes.io~1service-name";
            object.value.pointer(label).and_then(Value::as_str)
        }
        RawKind::Ingested(Kind::Node) | RawKind::Pod | RawKind::Other => None,
    };
    let incomplete = &pair.incomplete_services;
    service.is_some_and(|service| incomplete.contains(&object.namespace, service))
}

fn selector_change(matches: &TemplateMatches) -> SelectorChange {
    SelectorChange {
        namespace: escaped(&matches.namespace).into_owned(),
        service: escaped(&matches.service).into_owned(),
        before: matches.before,
        after: matches.after,
    }
}

/// Escapes characters that a terminal acts on, as a dump is escaped when it is read: names and
/// values are printed.
fn escape(object: &mut RawObject) {
    object.namespace = escaped(&object.namespace).into_owned();
    object.name = escaped(&object.name).into_owned();
    object.value = escaped_value(std::mem::take(&mut object.value));
}

fn escaped_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(escaped(&text).into_owned()),
        Value::Array(items) => items.into_iter().map(escaped_value).collect(),
        Value::Object(entries) => {
            let entries = entries.into_iter();
            let entry =
                |(key, value): (String, _)| (escaped(&key).into_owned(), escaped_value(value));
            Value::Object(entries.map(entry).collect())
        }
        other => other,
    }
}

fn fields(objects: &[RawObject]) -> Vec<ObjectFields<'_>> {
    let of_kind = |object: &RawObject| match object.kind {
        RawKind::Ingested(Kind::Service) => Some(ObjectKind::Service),
        RawKind::Ingested(Kind::EndpointSlice) => Some(ObjectKind::EndpointSlice),
        RawKind::Ingested(Kind::Node) | RawKind::Pod | RawKind::Other => None,
    };
    let fields = objects.iter().filter_map(|object| {
        Some(ObjectFields {
            kind: of_kind(object)?,
            namespace: &object.namespace,
            name: &object.name,
            value: &object.value,
        })
    });
    fields.collect()
}
