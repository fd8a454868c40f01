//! Compression of response bodies: the `Content-Encoding` header, and a streaming gzip decoder.

use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use super::error::{ApiError, not_decodable, protocol_error};

/// Reports whether a body with these headers is compressed with gzip (RFC 1952). An error has the
/// name of another compression. A server may always send none.
pub(super) fn is_gzip(headers: &HeaderMap) -> Result<bool, String> {
    let Some(found) = headers.get(CONTENT_ENCODING) else {
        return Ok(false);
    };
    let name = String::from_utf8_lossy(found.as_bytes());
    match name.trim() {
        "" => Ok(false),
        name if name.eq_ignore_ascii_case("identity") => Ok(false),
        name if name.eq_ignore_ascii_case("gzip") => Ok(true),
        name => Err(format!(
            "unsupported Content-Encoding `{}`: neither `gzip` nor `identity`",
            name.escape_debug()
        )),
    }
}

/// Maximum bytes that one call of [`GzipDecoder::next`] returns. Deflate expands up to 1,032 times:
/// a frame of 16 KiB could fill 16 MiB before a limit of the caller applies.
const MAX_PIECE_BYTES: usize = 32 * 1024;

/// Binary logarithm of the largest window of deflate. Servers need not say that theirs is smaller.
const WINDOW_BITS: u8 = 15;

/// Streaming decoder of gzip: returns bytes as soon as the received ones determine them.
///
/// A body is any number of gzip members. The API server begins a new one with each event that it
/// sends after a pause. Between two members, the decoder has no window in memory.
#[derive(Debug, Default)]
pub(super) struct GzipDecoder {
    received: Bytes,
    member: Option<Decompress>,
}

impl GzipDecoder {
    /// Adds received bytes. [`Self::next`] must have returned `None` since the last ones.
    pub(super) fn add(&mut self, received: Bytes) {
        self.received = received;
    }

    /// Returns the next decoded bytes, at most [`MAX_PIECE_BYTES`] and never empty, or `None` if
    /// more must be received first.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        let mut piece = Vec::new();
        while self.member.is_some() || !self.received.is_empty() {
            let member = self
                .member
                .get_or_insert_with(|| Decompress::new_gzip(WINDOW_BITS));
            piece.reserve_exact(MAX_PIECE_BYTES);
            let before = member.total_in();
            // Also without received bytes: the last call may have left some decoded ones.
            let status = member
                .decompress_vec(&self.received, &mut piece, FlushDecompress::None)
                .map_err(|error| not_decodable(format!("invalid gzip: {error}")))?;
            let read = usize::try_from(member.total_in() - before).unwrap_or(usize::MAX);
            self.received.advance(read.min(self.received.len()));
            let has_ended = status == Status::StreamEnd;
            if has_ended {
                self.member = None;
            }
            if !piece.is_empty() {
                return Ok(Some(piece.into()));
            }
            if !has_ended && self.received.is_empty() {
                return Ok(None);
            }
            if read == 0 {
                // Cannot happen: with bytes to read and room to write, zlib does one or fails.
                return Err(not_decodable("invalid gzip"));
            }
        }
        Ok(None)
    }

    /// Fails if the body has ended within a member.
    pub(super) fn expect_no_partial_member(&self) -> Result<(), ApiError> {
        match self.member {
            None => Ok(()),
            Some(_) => Err(protocol_error("the body ended within a gzip member")),
        }
    }
}
