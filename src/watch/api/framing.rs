//! Framing of JSON and protobuf bodies: where a message ends, and what is wrapped around it.
//!
//! Lists, events and objects are the same in both encodings above this file.
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

/// Maximum bytes of a message. No object is near this: stores reject objects of more than a few
/// megabytes.
const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of the length before a protobuf frame; the highest byte comes first.
const LENGTH_PREFIX_BYTES: usize = size_of::<u32>();

/// Takes the next line of a JSON stream from `unread`; `None` if it is not complete yet.
/// `searched` bytes of it are known to hold no line end. Pieces of a body end anywhere, also
/// within a character.
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

/// Takes the bytes after the last line end when the body has ended. A server that is shut down
/// may leave an incomplete line: it is returned if the body ended in order, and fails to decode.
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
    Err(protocol_error("a frame of a watch is cut off"))
}

/// Prefix of every protobuf message of the API, and of nothing else.
const MAGIC: &[u8] = b"k8s\0";

/// Envelope around a protobuf message: lists, errors and every object of a watch come in one.
#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, required, tag = 1)]
    type_meta: TypeMeta,
    #[prost(bytes = "bytes", tag = 2)]
    raw: Bytes,
    #[prost(string, tag = 3)]
    content_encoding: String,
}

/// `TypeMeta` of a protobuf message. As bytes, because it is compared and not kept.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TypeMeta {
    #[prost(bytes = "bytes", tag = 1)]
    pub(super) api_version: Bytes,
    #[prost(bytes = "bytes", tag = 2)]
    pub(super) kind: Bytes,
}

/// Returns the message in an envelope and its type. Its bytes are shared, not copied.
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

/// Part of a body that is not decoded yet, in the encoding in which it came.
#[derive(Debug, Clone)]
pub(super) enum Raw<'a> {
    /// Text.
    Json(&'a RawValue),
    /// A message, out of its envelope.
    Protobuf(Bytes),
}

impl Raw<'_> {
    /// Decodes all of it, or as much as possible: a protobuf message begins with its metadata, so
    /// that an invalid one still has a name. Of invalid JSON nothing is left.
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

/// Returns text in which each byte that is not UTF-8 is U+FFFD, as Go reads JSON: one invalid
/// byte in a field that nothing depends on must not cost the whole message.
pub(super) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    // Far faster for valid text, which is nearly all.
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}
