//! Objects of manifests with all of their fields, for `diff`.
//!
//! Separate from [`document`](super::document), whose types have only the fields that rules depend
//! on: the daemon has no other fields in memory.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde_json::Value;

use super::document::object_name;
use super::document_kind::DocumentKind;
use super::parse::{TextFormat, documents};
use crate::ingest::ObjectName;
use crate::model::Kind;

/// Object with all of its fields.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RawObject {
    /// Kind.
    pub kind: RawKind,
    /// `default` if it has none.
    pub namespace: String,
    /// Empty if it has none.
    pub name: String,
    /// Object as written.
    pub value: Value,
}

/// Kind of an object, as far as `diff` distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawKind {
    /// Object from which rules follow.
    Ingested(Kind),
    /// Object of kind Pod.
    Pod,
    /// Any other.
    Other,
}

/// Identity of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RawKey {
    /// API version; empty for [`RawKind::Ingested`], whose objects may leave it out.
    version: String,
    kind: String,
    namespace: String,
    name: String,
}

impl RawKey {
    /// Returns the key of a Service.
    pub(super) fn of_service(namespace: &str, name: &str) -> Self {
        Self {
            version: String::new(),
            kind: Kind::Service.as_str().to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// Adds the objects in `text`. A document with an error is skipped: it was reported when `text` was
/// parsed, apart from JSON with characters that YAML does not allow. A later object replaces an
/// earlier one of the same name.
pub(super) fn add_raw(text: &str, format: TextFormat, to: &mut BTreeMap<RawKey, RawObject>) {
    for mut document in documents(text, format) {
        if let Ok(Some(value)) = document.read(|_| PhantomData::<Value>) {
            add_document(value, ("", None), to);
        }
    }
}

/// Adds an object, or those of a list. `implied` is the version and kind of an item of a typed list
/// that does not have its own.
fn add_document(
    mut value: Value,
    implied: (&str, Option<&str>),
    to: &mut BTreeMap<RawKey, RawObject>,
) {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let Some(kind) = text("/kind").or(implied.1).map(str::to_owned) else {
        return;
    };
    let version = text("/apiVersion").unwrap_or(implied.0).to_owned();
    let stated = Some(version.as_str()).filter(|version| !version.is_empty());
    let document = DocumentKind::of(stated, &kind);
    if let (Some(item), Some(items)) = (kind.strip_suffix("List"), value.get_mut("items")) {
        let item = Some(item).filter(|item| !item.is_empty());
        // The items of an untyped list have versions of their own.
        let version = item.map_or("", |_| &version);
        if let Value::Array(items) = items.take() {
            for one in items {
                add_document(one, (version, item), to);
            }
        }
        return;
    }
    let ObjectName { namespace, name } = object_name(&value);
    let raw_kind = match document {
        DocumentKind::Ingested(kind) => RawKind::Ingested(kind),
        _ if kind == "Pod" => RawKind::Pod,
        _ => RawKind::Other,
    };
    let key = RawKey {
        version: match raw_kind {
            RawKind::Ingested(_) => String::new(),
            RawKind::Pod | RawKind::Other => version,
        },
        kind,
        namespace: namespace.clone(),
        name: name.clone(),
    };
    let object = RawObject {
        kind: raw_kind,
        namespace,
        name,
        value,
    };
    to.insert(key, object);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, RawKind)]) {
        let mut objects = BTreeMap::new();
        add_raw(text, TextFormat::Yaml, &mut objects);
        let found: Vec<_> = objects
            .values()
            .map(|one| (one.name.as_str(), one.kind))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_kind_of_an_object_depends_on_its_group() {
        let list = |version: &str, kind: &str| {
            format!("apiVersion: {version}\nkind: {kind}\nitems: [{{metadata: {{name: a}}}}]\n")
        };
        check(
            &list("v1", "ServiceList"),
            &[("a", RawKind::Ingested(Kind::Service))],
        );
        check(&list("v1", "PodList"), &[("a", RawKind::Pod)]);
        check(
            &list("serving.knative.dev/v1", "ServiceList"),
            &[("a", RawKind::Other)],
        );
        // Neither replaces the other.
        let both = "kind: Service\napiVersion: v1\nmetadata: {name: a}\n---\n\
                    kind: Service\napiVersion: serving.knative.dev/v1\nmetadata: {name: a}\n";
        check(
            both,
            &[
                ("a", RawKind::Ingested(Kind::Service)),
                ("a", RawKind::Other),
            ],
        );
        let items = "{kind: Service, apiVersion: v1, metadata: {name: a}}";
        let list = format!("kind: List\napiVersion: v1\nitems: [{items}]\n");
        check(&list, &[("a", RawKind::Ingested(Kind::Service))]);
    }
}
