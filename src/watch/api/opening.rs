//! The first request to a server goes ahead of the others.
//!
//! Apart because it is about connections, which requests otherwise know nothing of: that a server
//! speaks HTTP/2 is known only after a handshake, so of requests that begin at the same moment each
//! makes one, and all connections but one are thrown away. When all nodes start at once, their
//! server would pay for each. Later, after an outage, waits of random length keep requests apart.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

/// Who waits longer goes, too: the request ahead may be one that this server is slow at.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Whether the server has answered anything yet.
#[derive(Debug, Default)]
pub(super) struct Opening {
    has_answered: Mutex<bool>,
}

/// Leave to send one request. Dropped without an answer, the next request goes first.
pub(super) struct Turn<'a>(Option<MutexGuard<'a, bool>>);

impl Opening {
    /// Waits until a request may go.
    pub(super) async fn turn(&self) -> Turn<'_> {
        let first = timeout(LONGEST_WAIT, self.has_answered.lock()).await;
        Turn(first.ok().filter(|has_answered| !**has_answered))
    }
}

impl Turn<'_> {
    /// The server has answered, whatever it said: there is a connection to share.
    pub(super) fn answered(self) {
        if let Some(mut has_answered) = self.0 {
            *has_answered = true;
        }
    }
}
