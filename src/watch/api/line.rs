//! A body cut into lines.
//!
//! Apart because pieces of a body end anywhere, also within a character.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::answer::Answer;
use super::error::{ApiError, malformed};

/// No object is near this: stores refuse objects of more than a few megabytes.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// Lines of an answer, one at a time; holds at most one and what came with it.
pub(super) struct Lines {
    answer: Answer,
    unread: BytesMut,
    /// Bytes of `unread` that are known to hold no line end.
    searched: usize,
}

impl Lines {
    pub(super) fn of(answer: Answer) -> Self {
        Self {
            answer,
            unread: BytesMut::new(),
            searched: 0,
        }
    }

    /// The next line, or `None` at the end. A line without its end is what a dying server leaves
    /// behind: it is returned if the body ended in order, and the reader finds out.
    pub(super) async fn next(&mut self, patience: Duration) -> Result<Option<Bytes>, ApiError> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            if self.unread.len() > LONGEST_LINE {
                return Err(malformed("a line of a watch has no end"));
            }
            match self.answer.piece(patience).await? {
                Some(piece) => self.unread.extend_from_slice(&piece),
                None if self.unread.iter().all(u8::is_ascii_whitespace) => return Ok(None),
                None => return Ok(Some(self.rest())),
            }
        }
    }

    fn take(&mut self) -> Option<Bytes> {
        let fresh = self.unread.get(self.searched..)?;
        let Some(end) = memchr::memchr(b'\n', fresh) else {
            self.searched = self.unread.len();
            return None;
        };
        let line = self.unread.split_to(self.searched + end + 1).freeze();
        self.searched = 0;
        Some(line)
    }

    fn rest(&mut self) -> Bytes {
        self.searched = 0;
        self.unread.split().freeze()
    }
}
