//! The body of a watch, cut into messages.
//!
//! Apart from where they [end](super::line), which differs by encoding: waiting for more does not.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::answer::Answer;
use super::encoding::Encoding;
use super::error::ApiError;
use super::{frame, line};

/// No object is near this: stores refuse objects of more than a few megabytes.
pub(super) const LONGEST_MESSAGE: usize = 64 * 1024 * 1024;

/// Messages of an answer, one at a time; holds at most one and what came with it.
pub(super) struct Messages {
    answer: Answer,
    unread: BytesMut,
    /// Bytes of `unread` that are known to hold no line end; 0 where lines don't matter.
    searched: usize,
}

impl Messages {
    pub(super) fn of(answer: Answer) -> Self {
        Self {
            answer,
            unread: BytesMut::new(),
            searched: 0,
        }
    }

    /// What each of them is in.
    pub(super) fn encoding(&self) -> Encoding {
        self.answer.encoding()
    }

    /// The next message, or `None` at the end.
    pub(super) async fn next(&mut self, patience: Duration) -> Result<Option<Bytes>, ApiError> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            match self.answer.piece(patience).await? {
                Some(piece) => self.unread.extend_from_slice(&piece),
                None => return self.rest(),
            }
        }
    }

    fn take(&mut self) -> Result<Option<Bytes>, ApiError> {
        match self.encoding() {
            Encoding::Json => line::take(&mut self.unread, &mut self.searched),
            Encoding::Protobuf => frame::take(&mut self.unread),
        }
    }

    fn rest(&mut self) -> Result<Option<Bytes>, ApiError> {
        self.searched = 0;
        match self.encoding() {
            Encoding::Json => Ok(line::rest(&mut self.unread)),
            Encoding::Protobuf => frame::rest(&self.unread),
        }
    }
}
