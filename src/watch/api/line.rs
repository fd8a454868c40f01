//! Where the messages of a JSON stream end: each is a line.
//!
//! Apart because pieces of a body end anywhere, also within a character.

use bytes::{Bytes, BytesMut};

use super::error::{ApiError, malformed};
use super::message::LONGEST_MESSAGE;

/// The next line, out of what came; `None` if it is not whole yet. `searched` bytes of it are
/// known to hold no line end.
pub(super) fn take(unread: &mut BytesMut, searched: &mut usize) -> Result<Option<Bytes>, ApiError> {
    let fresh = unread.get(*searched..).unwrap_or_default();
    if let Some(end) = memchr::memchr(b'\n', fresh) {
        let line = unread.split_to(*searched + end + 1).freeze();
        *searched = 0;
        return Ok(Some(line));
    }
    *searched = unread.len();
    if unread.len() > LONGEST_MESSAGE {
        return Err(malformed("a line of a watch has no end"));
    }
    Ok(None)
}

/// A line without its end is what a dying server leaves behind: it is returned if the body ended
/// in order, and the reader finds out.
pub(super) fn rest(unread: &mut BytesMut) -> Option<Bytes> {
    let is_blank = unread.iter().all(u8::is_ascii_whitespace);
    let rest = unread.split().freeze();
    (!is_blank).then_some(rest)
}
