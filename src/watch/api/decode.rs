//! Decodes one object, or at least its name, and checks that its type is the requested one.
//!
//! One object that cannot be decoded must not affect the others of its list. The type is checked
//! because a server other than a Kubernetes API server may send other types, which would decode as
//! an empty list of Services.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tower::BoxError;

use super::encoding::EncodedObject;
use super::error::{ApiError, not_decodable};
use super::resource::Resource;
use crate::ingest::ObjectName;

/// Error of an object that exists and cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[error("cannot decode `{name}`")]
pub struct ObjectDecodeError {
    /// Name of the object; empty if it cannot be decoded either.
    pub name: ObjectName,
    /// Error of the decoder.
    pub source: BoxError,
}

/// Object of a list or an event, decoded or not.
pub(super) struct ReceivedObject<K> {
    /// Empty if it cannot be decoded.
    pub(super) resource_version: String,
    /// The decoded object, or the reason that it cannot be decoded.
    pub(super) decoded: Result<K, ObjectDecodeError>,
}

impl<K: Resource> ReceivedObject<K> {
    /// Decodes an object; an error becomes part of the result. An object without a name counts as
    /// undecodable, since no rules can be about it.
    pub(super) fn decode(encoded: &EncodedObject<'_>) -> Self {
        match encoded.decode::<K>() {
            Ok(object) => Self {
                resource_version: object.metadata().resource_version.clone(),
                decoded: expect_name(object),
            },
            Err((partial, source)) => {
                let (name, resource_version) = match encoded {
                    EncodedObject::Json(raw) => identity(raw),
                    EncodedObject::Protobuf(_) => {
                        let metadata = partial.metadata();
                        (metadata.object_name(), metadata.resource_version.clone())
                    }
                };
                Self {
                    resource_version,
                    decoded: Err(ObjectDecodeError { name, source }),
                }
            }
        }
    }

    /// Returns the name of the object; incomplete if it cannot be decoded.
    pub(super) fn name(&self) -> ObjectName {
        match &self.decoded {
            Ok(object) => object.metadata().object_name(),
            Err(problem) => problem.name.clone(),
        }
    }

    /// Reports whether the name of the object is known.
    pub(super) fn is_named(&self) -> bool {
        match &self.decoded {
            Ok(_) => true,
            Err(problem) => is_complete_name::<K>(&problem.name.namespace, &problem.name.name),
        }
    }
}

fn expect_name<K: Resource>(object: K) -> Result<K, ObjectDecodeError> {
    let metadata = object.metadata();
    if is_complete_name::<K>(&metadata.namespace, &metadata.name) {
        return Ok(object);
    }
    let name = metadata.object_name();
    let source = "`metadata` has no name or no namespace".into();
    Err(ObjectDecodeError { name, source })
}

fn is_complete_name<K: Resource>(namespace: &str, name: &str) -> bool {
    !name.is_empty() && (!namespace.is_empty() || !K::IS_NAMESPACED)
}

/// Returns name and resource version of an object in JSON that cannot be decoded as its type. Each
/// is empty if it is invalid.
fn identity(raw: &RawValue) -> (ObjectName, String) {
    let PartialObject { metadata } = serde_json::from_str(raw.get()).unwrap_or_default();
    let text = |field| metadata.get(field).and_then(Value::as_str);
    let text = |field| text(field).unwrap_or_default().to_owned();
    let name = ObjectName {
        namespace: text("namespace"),
        name: text("name"),
    };
    (name, text("resourceVersion"))
}

/// Object of which only the metadata is decoded.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialObject {
    metadata: Value,
}

/// Type of an object in JSON.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct JsonTypeMeta<'a> {
    #[serde(borrow)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
}

/// Fails if an object in JSON names another type than `K`. A type that cannot be decoded counts as
/// missing, and is accepted.
pub(super) fn expect_json_object<K: Resource>(object: &RawValue) -> Result<(), ApiError> {
    let JsonTypeMeta { api_version, kind } = serde_json::from_str(object.get()).unwrap_or_default();
    let [api_version, kind] = [api_version, kind].map(Option::unwrap_or_default);
    expect_type::<K>(api_version.as_bytes(), kind.as_bytes(), "")
}

/// Fails if an object names another type than `K`, or with the suffix `List` another type than a
/// list of `K`. A missing type is accepted, as in Go.
pub(super) fn expect_type<K: Resource>(
    api_version: &[u8],
    kind: &[u8],
    suffix: &str,
) -> Result<(), ApiError> {
    let is_kind =
        kind.is_empty() || kind.strip_suffix(suffix.as_bytes()) == Some(K::KIND.as_bytes());
    let is_version = api_version.is_empty() || api_version == K::API_VERSION.as_bytes();
    if is_kind && is_version {
        return Ok(());
    }
    let found = [api_version, b" ", kind].concat();
    let found = String::from_utf8_lossy(&found);
    let (found, version, kind) = (found.trim().escape_debug(), K::API_VERSION, K::KIND);
    Err(not_decodable(format!(
        "expected `{version} {kind}{suffix}`, got `{found}`"
    )))
}
