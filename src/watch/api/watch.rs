//! One watch, from its request to its end.
//!
//! Kept separate from [`event`](super::event) because how long a watch may last, and be silent, is
//! a matter of the whole and not of events.

use std::time::Duration;

use tokio::time::Instant;

use super::answer::Answer;
use super::client::ApiServer;
use super::encoding::Asked;
use super::error::ApiError;
use super::event::Event;
use super::kind::{Kind, Selector};
use super::message::Messages;
use super::request::{self, Start};

/// How much longer than the server's own limit a watch may last.
const GRACE: Duration = Duration::from_secs(30);

/// An open watch.
pub(super) struct Watch {
    messages: Messages,
    opened: Instant,
    deadline: Instant,
    /// Bytes of all messages so far.
    received: usize,
}

impl Watch {
    /// Asks, and waits for a favorable answer.
    pub(super) async fn open<K: Kind>(
        server: &ApiServer,
        selector: &Selector<K>,
        start: Start<'_>,
        lasting: Duration,
    ) -> Result<Self, ApiError> {
        let uri = request::watch(selector, start, lasting);
        let messages = Messages::of(Answer::to(server, Asked::Watch, &uri).await?);
        let opened = Instant::now();
        let deadline = opened + lasting + GRACE;
        Ok(Self {
            messages,
            opened,
            deadline,
            received: 0,
        })
    }

    /// Bytes of the messages that came since the last call.
    pub(super) fn take_received(&mut self) -> usize {
        std::mem::take(&mut self.received)
    }

    /// How long it has been open.
    pub(super) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// The next event, or `None` at the end. [`ApiError::Silent`] if none came in time, or if the
    /// server let its own time limit pass.
    pub(super) async fn next<K: Kind>(
        &mut self,
        deadline: Instant,
    ) -> Result<Option<Event<K>>, ApiError> {
        let deadline = deadline.min(self.deadline);
        loop {
            // Messages may come without end.
            if Instant::now() >= self.deadline {
                return Err(ApiError::Silent(self.age()));
            }
            let Some(message) = self.messages.next(deadline).await? else {
                return Ok(None);
            };
            self.received = self.received.saturating_add(message.len());
            if let Some(event) = Event::read(self.messages.encoding(), &message)? {
                return Ok(Some(event));
            }
            if Instant::now() >= deadline {
                return Err(ApiError::Silent(self.age()));
            }
        }
    }
}
