//! Decodes one object, or at least its name, and checks that its type is the requested one.
//!
//! One object that cannot be decoded must not affect the others of its list. The type is checked
//! because a server other than a Kubernetes API server may send other types, which would decode as
//! an empty list of Services.

use std::borrow::Cow;

use serde::Deserialize;
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
                        let namespace = metadata.namespace.clone();
                        let name = metadata.name.clone();
                        let name = ObjectName { namespace, name };
                        (name, metadata.resource_version.clone())
                    }
                };
                Self {
                    resource_version,
                    decoded: Err(ObjectDecodeError { name, source }),
                }
            }
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
    let name = ObjectName {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
    };
    let source = "`metadata` has no name or no namespace".into();
    Err(ObjectDecodeError { name, source })
}

fn is_complete_name<K: Resource>(namespace: &str, name: &str) -> bool {
    !name.is_empty() && (!namespace.is_empty() || !K::IS_NAMESPACED)
}

/// Returns name and resource version of an object in JSON that cannot be decoded as its type.
fn identity(raw: &RawValue) -> (ObjectName, String) {
    let PartialObject { metadata } = serde_json::from_str(raw.get()).unwrap_or_default();
    let name = ObjectName {
        namespace: text(metadata.namespace),
        name: text(metadata.name),
    };
    (name, text(metadata.resource_version))
}

fn text(raw: Option<&RawValue>) -> String {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

/// Metadata of an object, of which each field is decoded alone, so that an invalid one does not
/// affect the others.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct PartialObject<'a> {
    metadata: PartialMetadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialMetadata<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow)]
    resource_version: Option<&'a RawValue>,
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
    // The usual case: to decode the type would read each object twice.
    if starts_with_type::<K>(object.get()) {
        return Ok(());
    }
    let JsonTypeMeta { api_version, kind } = serde_json::from_str(object.get()).unwrap_or_default();
    let [api_version, kind] = [api_version, kind].map(Option::unwrap_or_default);
    expect_type::<K>(api_version.as_bytes(), kind.as_bytes(), "")
}

/// Reports whether an object begins with the type `K`, in the form that API servers write.
fn starts_with_type<K: Resource>(json: &str) -> bool {
    let kind = json.strip_prefix(r#"{"kind":""#);
    let rest = kind.and_then(|kind| kind.strip_prefix(K::KIND));
    let version = rest.and_then(|rest| rest.strip_prefix(r#"","apiVersion":""#));
    let rest = version.and_then(|version| version.strip_prefix(K::API_VERSION));
    rest.is_some_and(|rest| rest.starts_with(r#"",""#))
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
