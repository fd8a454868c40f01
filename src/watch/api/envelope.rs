//! What the API wraps around each protobuf message: four bytes, and the kind of the message.
//!
//! Lists, errors and every object of a watch come in one.
//!
//! # Source
//!
//! Upstream: k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go (v1.36)
//! Upstream: k8s.io/apimachinery/pkg/runtime/generated.proto, `Unknown` (v1.36)

use bytes::Bytes;
use prost::Message;

use super::error::{ApiError, malformed};
use super::type_meta::TypeMeta;

/// What protobuf of the API begins with, and nothing else does.
const MAGIC: &[u8] = b"k8s\0";

/// `Unknown`.
#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, required, tag = 1)]
    type_meta: TypeMeta,
    #[prost(bytes = "bytes", tag = 2)]
    raw: Bytes,
    #[prost(string, tag = 3)]
    content_encoding: String,
}

/// The kind of the message in an envelope, and the message; its bytes are shared, not copied.
pub(super) fn open(mut envelope: Bytes) -> Result<(TypeMeta, Bytes), ApiError> {
    if !envelope.starts_with(MAGIC) {
        return Err(malformed("a body is not the API's protobuf"));
    }
    let Unknown {
        type_meta,
        raw,
        content_encoding,
    } = Unknown::decode(envelope.split_off(MAGIC.len())).map_err(malformed)?;
    if !content_encoding.is_empty() {
        return Err(malformed("a message is compressed, and was not to be"));
    }
    Ok((type_meta, raw))
}
