//! The body of a watch, cut into messages.
//!
//! Kept separate from where they [end](super::line), which differs by encoding: waiting for more
//! does not.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use super::answer::Answer;
use super::encoding::Encoding;
use super::error::{ApiError, malformed};
use super::{frame, line};

/// No object is near this: stores refuse objects of more than a few megabytes.
pub(super) const LONGEST_MESSAGE: usize = 64 * 1024 * 1024;

/// Time for a message from its first byte to its last: servers write each at once. Without a limit
/// a length that is wrong would keep a watch waiting until its end.
const MESSAGE_DEADLINE: Duration = Duration::from_secs(60);

/// Messages of an answer, one at a time; holds at most one and what came with it.
pub(super) struct Messages {
    answer: Answer,
    unread: BytesMut,
    /// Bytes of `unread` that are known to hold no line end; 0 where lines don't matter.
    searched: usize,
    /// When the first byte of the message that is not complete was seen.
    begun: Option<Instant>,
    /// The body has ended, and must not be polled again.
    has_ended: bool,
}

impl Messages {
    pub(super) fn of(answer: Answer) -> Self {
        Self {
            answer,
            unread: BytesMut::new(),
            searched: 0,
            begun: None,
            has_ended: false,
        }
    }

    /// What each of them is in.
    pub(super) fn encoding(&self) -> Encoding {
        self.answer.encoding()
    }

    /// The next message, or `None` at the end; [`ApiError::Silent`] if none began in time.
    pub(super) async fn next(&mut self, deadline: Instant) -> Result<Option<Bytes>, ApiError> {
        loop {
            if let Some(message) = self.take()? {
                self.begun = None;
                return Ok(Some(message));
            }
            if self.has_ended {
                return Ok(None);
            }
            let deadline = self.wait_until(deadline)?;
            match self.answer.piece(deadline).await {
                Ok(Some(piece)) => self.unread.extend_from_slice(&piece),
                Ok(None) => return self.rest(),
                Err(ApiError::Silent(_)) if self.begun.is_some() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// When to give up waiting for more: a message that has begun has a deadline of its own.
    fn wait_until(&mut self, deadline: Instant) -> Result<Instant, ApiError> {
        if self.unread.is_empty() {
            return Ok(deadline);
        }
        let now = Instant::now();
        let end = *self.begun.get_or_insert(now) + MESSAGE_DEADLINE;
        if now >= end {
            let seconds = MESSAGE_DEADLINE.as_secs();
            return Err(malformed(format!(
                "a message of a watch is not complete after {seconds} s"
            )));
        }
        Ok(end)
    }

    fn take(&mut self) -> Result<Option<Bytes>, ApiError> {
        match self.encoding() {
            Encoding::Json => line::take(&mut self.unread, &mut self.searched),
            Encoding::Protobuf => frame::take(&mut self.unread),
        }
    }

    fn rest(&mut self) -> Result<Option<Bytes>, ApiError> {
        self.searched = 0;
        self.has_ended = true;
        match self.encoding() {
            Encoding::Json => Ok(line::rest(&mut self.unread)),
            Encoding::Protobuf => frame::rest(&self.unread),
        }
    }
}
