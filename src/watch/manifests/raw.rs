//! Objects of manifests with all of their fields, for reviews.
//!
//! Separate from [`document`](super::document), whose types have only the fields that rules depend
//! on: the daemon keeps no others in memory.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde_json::Value;

use super::parse::{TextFormat, documents};

/// Object with all of its fields.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RawObject {
    /// Kind as written, such as `Service`.
    pub kind: String,
    /// `default` if it has none.
    pub namespace: String,
    /// Empty if it has none.
    pub name: String,
    /// Object as written.
    pub value: Value,
}

/// Kind, namespace and name of an object.
pub(super) type RawKey = (String, String, String);

/// Adds the objects in `text`, which was parsed before: its errors are known, so a document with
/// one is skipped here. A later object replaces an earlier one of the same name.
pub(super) fn add_raw(text: &str, format: TextFormat, to: &mut BTreeMap<RawKey, RawObject>) {
    for mut document in documents(text, format) {
        if let Ok(Some(value)) = document.read(|_| PhantomData::<Value>) {
            add_document(value, None, to);
        }
    }
}

/// Adds an object, or those of a list. `kind` is that of the items of a list of one kind, which may
/// have none of their own.
fn add_document(mut value: Value, kind: Option<&str>, to: &mut BTreeMap<RawKey, RawObject>) {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let Some(kind) = text("/kind").or(kind).map(str::to_owned) else {
        return;
    };
    let is_service = kind == "Service";
    // Another API group may have a kind of the same name, as Knative has a Service.
    if is_service && text("/apiVersion").is_some_and(|version| version != "v1") {
        return;
    }
    let namespace = text("/metadata/namespace").filter(|name| !name.is_empty());
    let namespace = namespace.unwrap_or("default").to_owned();
    let name = text("/metadata/name").unwrap_or_default().to_owned();
    if let (Some(item), Some(items)) = (kind.strip_suffix("List"), value.get_mut("items")) {
        let item = Some(item).filter(|item| !item.is_empty());
        if let Value::Array(items) = items.take() {
            for one in items {
                add_document(one, item, to);
            }
        }
        return;
    }
    let object = RawObject {
        kind,
        namespace,
        name,
        value,
    };
    let key = (
        object.kind.clone(),
        object.namespace.clone(),
        object.name.clone(),
    );
    to.insert(key, object);
}
