//! Where the messages of a protobuf stream end: each has its length before it.
//!
//! Apart, and without a connection, because a length is a number that a stranger wrote.
//!
//! # Source
//!
//! Upstream: k8s.io/apimachinery/pkg/util/framer/framer.go (v1.36)

use bytes::{Buf, Bytes, BytesMut};

use super::error::{ApiError, malformed};
use super::message::LONGEST_MESSAGE;

/// The size of a length: four bytes, the highest first.
const LENGTH: usize = size_of::<u32>();

/// The next frame, out of what came; `None` if it is not whole yet. Nothing is set aside for a
/// frame before its bytes are there.
pub(super) fn take(unread: &mut BytesMut) -> Result<Option<Bytes>, ApiError> {
    let Some(length) = unread.first_chunk::<LENGTH>() else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > LONGEST_MESSAGE {
        return Err(malformed("a frame of a watch is longer than any object"));
    }
    if unread.len() - LENGTH < length {
        return Ok(None);
    }
    unread.advance(LENGTH);
    Ok(Some(unread.split_to(length).freeze()))
}

/// What is left when the body ended: nothing, or a frame that was cut off.
pub(super) fn rest(unread: &BytesMut) -> Result<Option<Bytes>, ApiError> {
    if unread.is_empty() {
        return Ok(None);
    }
    Err(malformed("a frame of a watch is cut off"))
}
