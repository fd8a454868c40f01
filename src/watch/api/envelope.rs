//! What the API wraps around each protobuf message: four bytes, and the kind of the message.
//!
//! Apart because lists, errors and every object of a watch come in one.
//!
//! # Source
//!
//! Upstream: k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go (v1.36)
//! Upstream: k8s.io/apimachinery/pkg/runtime/generated.proto, `Unknown` (v1.36)

use bytes::Bytes;
use prost::Message;

use super::error::{ApiError, malformed};

/// What protobuf of the API begins with, and nothing else does.
const MAGIC: &[u8] = b"k8s\0";

/// `Unknown`, without the kind: what is in it follows from what was asked for.
#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(bytes = "bytes", tag = 2)]
    raw: Bytes,
    #[prost(string, tag = 3)]
    content_encoding: String,
}

/// The message in an envelope; the bytes are shared, not copied.
pub(super) fn open(mut envelope: Bytes) -> Result<Bytes, ApiError> {
    if !envelope.starts_with(MAGIC) {
        return Err(malformed("a body is not the API's protobuf"));
    }
    let Unknown {
        raw,
        content_encoding,
    } = Unknown::decode(envelope.split_off(MAGIC.len()))
        .map_err(|error| ApiError::Connection(error.into()))?;
    if !content_encoding.is_empty() {
        return Err(malformed("a message is compressed, and was not to be"));
    }
    Ok(raw)
}
