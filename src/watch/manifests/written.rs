//! Services and EndpointSlices of manifests with all of their fields, for `diff`.
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

/// Objects as written, by kind and name.
pub(crate) type WrittenObjects = BTreeMap<(Kind, ObjectName), Value>;

/// Adds the objects in a text that was parsed before. A later object replaces an earlier one of the
/// same name. JSON with characters that YAML does not allow is skipped.
pub(super) fn add_written(text: &str, format: TextFormat, to: &mut WrittenObjects) {
    for mut document in documents(text, format) {
        if let Ok(Some(value)) = document.read(|_| PhantomData::<Value>) {
            add_document(value, None, to);
        }
    }
}

/// Adds an object, or those of a list. `item_kind` is the kind of an item of a typed list that does
/// not have its own.
fn add_document(mut value: Value, item_kind: Option<Kind>, to: &mut WrittenObjects) {
    let text = |field| value.get(field).and_then(Value::as_str);
    let kind = match (text("kind"), item_kind) {
        (Some(kind), _) => DocumentKind::of(text("apiVersion"), kind),
        (None, Some(kind)) => DocumentKind::Ingested(kind),
        (None, None) => return,
    };
    match kind {
        DocumentKind::Ingested(kind @ (Kind::Service | Kind::EndpointSlice)) => {
            to.insert((kind, object_name(&value)), value);
        }
        DocumentKind::List(item_kind) => {
            if let Some(Value::Array(items)) = value.get_mut("items").map(Value::take) {
                for item in items {
                    add_document(item, item_kind, to);
                }
            }
        }
        _ => {}
    }
}
