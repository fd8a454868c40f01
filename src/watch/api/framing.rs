//! Splits the body of a watch into lines of JSON or frames of protobuf, and opens the envelope of
//! protobuf.
//!
//! An [`EncodedObject`] is decoded in the same way in both encodings.
//!
//! # Source
//!
//! Upstream: k8s.io/apimachinery/pkg/util/framer/framer.go (v1.36)
//! Upstream: k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go (v1.36)
//! Upstream: k8s.io/apimachinery/pkg/runtime/generated.proto, `Unknown` (v1.36)

use std::borrow::Cow;

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tower::BoxError;

use super::error::{ApiError, not_decodable, protocol_error};

/// Maximum bytes of a line or frame. No object is near this: etcd rejects objects of more than a
/// few megabytes.
const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of the length before a protobuf frame, in big-endian order.
const LENGTH_PREFIX_BYTES: usize = size_of::<u32>();

/// Takes the next line of a JSON stream from `unread`; `None` if it is not complete yet.
/// The first `searched` bytes of it have no line end. Pieces of a body end anywhere, also within a
/// character.
pub(super) fn take_line(
    unread: &mut BytesMut,
    searched: &mut usize,
) -> Result<Option<Bytes>, ApiError> {
    let fresh = unread.get(*searched..).unwrap_or_default();
    if let Some(end) = memchr::memchr(b'\n', fresh) {
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

/// Takes the bytes after the last line end when the body has ended cleanly. A server that shuts
/// down may leave an incomplete line, which then fails to decode.
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

/// Type of the object in an envelope. As bytes, because it is only compared.
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

/// Type that can be decoded from both encodings. Trimmed to the fields that are used: others are
/// skipped.
pub trait Decodable: DeserializeOwned + Message + Default {}

impl<T: DeserializeOwned + Message + Default> Decodable for T {}

/// Object in a body, not decoded yet: an item of a list, or the object or status of an event.
#[derive(Debug, Clone)]
pub(super) enum EncodedObject<'a> {
    /// Text.
    Json(&'a RawValue),
    /// Payload of an envelope.
    Protobuf(Bytes),
}

impl EncodedObject<'_> {
    /// Decodes the object, or as much of it as possible: protobuf begins with the metadata, so that
    /// an invalid object still has a name. Of invalid JSON nothing is decoded.
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
