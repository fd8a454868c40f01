//! Encodings of objects, JSON and protobuf: media types, the lines or frames of a watch, the
//! envelope of protobuf, and the decoding of one object, or at least of its name.
//!
//! One object that cannot be decoded must not affect the others of its list. The type of an object
//! is checked because a server other than a Kubernetes API server may send other types, which would
//! decode as an empty list of Services.
//!
//! # Source
//!
//! Upstream: k8s.io/apimachinery/pkg/util/framer/framer.go (v1.37)
//! Upstream: k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go (v1.37)
//! Upstream: k8s.io/apimachinery/pkg/runtime/generated.proto, `Unknown` (v1.37)

use std::borrow::Cow;

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use prost::Message;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tower::BoxError;

use super::error::{ApiError, not_decodable, protocol_error};
use super::resource::{Decodable, Resource};
use crate::ingest::ObjectName;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

pub(super) const JSON: &str = "application/json";

/// Encoding of the objects in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// About half of JSON's bytes, and a fraction of its work for server and client.
    #[default]
    Protobuf,
    /// Supported by every server.
    Json,
}

impl Encoding {
    /// Returns the first supported encoding in `types`, the value of a setting: media types
    /// separated by commas, as in an `Accept` header. JSON if none is supported: servers choose it
    /// for `*/*` as well.
    pub fn preferred(types: &str) -> Self {
        types
            .split(',')
            .find_map(Self::of_media_type)
            .unwrap_or(Self::Json)
    }

    /// Returns the encoding of a media type; upper case and parameters are ignored.
    fn of_media_type(media_type: &str) -> Option<Self> {
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case(PROTOBUF) {
            Some(Self::Protobuf)
        } else if essence.eq_ignore_ascii_case(JSON) {
            Some(Self::Json)
        } else {
            None
        }
    }

    /// Returns the `Accept` header of a LIST. JSON is always accepted: another implementation of
    /// the API may support nothing else.
    pub(super) const fn accept(self) -> &'static str {
        match self {
            Self::Protobuf => "application/vnd.kubernetes.protobuf,application/json",
            Self::Json => JSON,
        }
    }

    /// Returns the `Accept` header of a watch or a WatchList.
    pub(super) const fn accept_stream(self) -> &'static str {
        match self {
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch,application/json",
            Self::Json => JSON,
        }
    }

    /// Returns the encoding of a body with these headers: JSON if they name none, and an error with
    /// the media type if it is unsupported.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, String> {
        let Some(found) = headers.get(CONTENT_TYPE) else {
            return Ok(Self::Json);
        };
        let text = String::from_utf8_lossy(found.as_bytes());
        if text.trim().is_empty() {
            return Ok(Self::Json);
        }
        Self::of_media_type(&text).ok_or_else(|| {
            let text = text.escape_debug();
            format!("unsupported Content-Type `{text}`: neither JSON nor protobuf")
        })
    }
}

/// Maximum bytes of a line or frame. No object is near this: etcd rejects objects of more than a
/// few megabytes.
const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of the length before a protobuf frame, in big-endian order.
const LENGTH_PREFIX_BYTES: usize = size_of::<u32>();

/// Takes the next line of a JSON stream from `unread`; `None` if it is not complete yet. The first
/// `searched` bytes of `unread` are known to have no line end. A body is received in pieces, which
/// end anywhere, also within a character.
pub(super) fn take_line(
    unread: &mut BytesMut,
    searched: &mut usize,
) -> Result<Option<Bytes>, ApiError> {
    let unsearched = unread.get(*searched..).unwrap_or_default();
    if let Some(end) = memchr::memchr(b'\n', unsearched) {
        let line = unread.split_to(*searched + end + 1).freeze();
        *searched = 0;
        return Ok(Some(line));
    }
    *searched = unread.len();
    if unread.len() > MAX_MESSAGE_BYTES {
        return Err(protocol_error("a line of a watch exceeds 64 MiB"));
    }
    Ok(None)
}

/// Takes the bytes after the last line end of a body that has ended cleanly; `None` if there are
/// only blanks. A server that shuts down may leave an incomplete line, which then fails to decode.
pub(super) fn take_last_line(unread: &mut BytesMut) -> Option<Bytes> {
    let is_blank = unread.iter().all(u8::is_ascii_whitespace);
    let rest = unread.split().freeze();
    (!is_blank).then_some(rest)
}

/// Takes the next frame of a protobuf stream from `unread`; `None` if it is not complete yet. The
/// length is untrusted: no memory is allocated for a frame before its bytes have arrived.
pub(super) fn take_frame(unread: &mut BytesMut) -> Result<Option<Bytes>, ApiError> {
    let Some(length) = unread.first_chunk::<LENGTH_PREFIX_BYTES>() else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE_BYTES {
        return Err(protocol_error("a frame of a watch exceeds 64 MiB"));
    }
    if unread.len() - LENGTH_PREFIX_BYTES < length {
        return Ok(None);
    }
    unread.advance(LENGTH_PREFIX_BYTES);
    Ok(Some(unread.split_to(length).freeze()))
}

/// Fails if the body of a protobuf stream has ended within a frame.
pub(super) fn expect_no_partial_frame(unread: &BytesMut) -> Result<(), ApiError> {
    if unread.is_empty() {
        return Ok(());
    }
    Err(protocol_error("a watch ended within a frame"))
}

/// First bytes of every envelope.
const MAGIC: &[u8] = b"k8s\0";

/// Envelope around an object in protobuf. Lists, errors and every object of a watch have one.
#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, required, tag = 1)]
    type_meta: TypeMeta,
    #[prost(bytes = "bytes", tag = 2)]
    raw: Bytes,
    #[prost(string, tag = 3)]
    content_encoding: String,
}

/// Type of the object in an envelope. Its fields are bytes, because they are only compared.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TypeMeta {
    #[prost(bytes = "bytes", tag = 1)]
    pub(super) api_version: Bytes,
    #[prost(bytes = "bytes", tag = 2)]
    pub(super) kind: Bytes,
}

/// Returns the type and the payload of an envelope. The bytes are shared, not copied.
pub(super) fn open_envelope(mut envelope: Bytes) -> Result<(TypeMeta, Bytes), ApiError> {
    if !envelope.starts_with(MAGIC) {
        return Err(not_decodable(
            "a body is not protobuf of the Kubernetes API",
        ));
    }
    let Unknown {
        type_meta,
        raw,
        content_encoding,
    } = Unknown::decode(envelope.split_off(MAGIC.len())).map_err(not_decodable)?;
    if !content_encoding.is_empty() {
        return Err(protocol_error(
            "a message is compressed, which is unsupported",
        ));
    }
    Ok((type_meta, raw))
}

/// Object in a body, not decoded yet: an item of a list, or the object or status of an event.
#[derive(Debug, Clone)]
pub(super) enum EncodedObject<'a> {
    Json(&'a RawValue),
    /// Protobuf message of the object, without an envelope.
    Protobuf(Bytes),
}

impl EncodedObject<'_> {
    /// Decodes the object. An error comes with the fields before the invalid one: in protobuf the
    /// metadata is first, so that an invalid object still has a name. Invalid JSON has no fields.
    pub(super) fn decode<T: Decodable>(&self) -> Result<T, (T, BoxError)> {
        match self {
            Self::Json(raw) => {
                serde_json::from_str(raw.get()).map_err(|error| (T::default(), error.into()))
            }
            Self::Protobuf(raw) => {
                let mut value = T::default();
                match value.merge(raw.as_ref()) {
                    Ok(()) => Ok(value),
                    Err(error) => Err((value, error.into())),
                }
            }
        }
    }
}

/// Returns text in which each byte that is not UTF-8 is U+FFFD, as Go reads JSON. Otherwise one
/// invalid byte in an unused field would make the whole line unusable.
pub(super) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    // Far faster for valid text, which is nearly all.
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// Error of an object that exists and cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[error("cannot decode `{name}`")]
pub struct ObjectDecodeError {
    /// Name of the object; empty if it cannot be decoded either.
    pub name: ObjectName,
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
