//! Where the rest of the process says that something happened.
//!
//! Apart from the [`Writer`] because this is used everywhere and never waits: what finds the queue
//! full is dropped, and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use tokio::sync::{mpsc, oneshot};

use super::{Event, Origin, Writer};

/// Events that wait while the server does not answer. Restarts and taken ports come one by one;
/// only a node with hundreds of taken ports has more to say at once.
const LONGEST_QUEUE: usize = 256;

/// What is in the queue.
#[derive(Debug)]
pub(super) enum Entry {
    /// Something happened.
    Happened(Event, SystemTime),
    /// Somebody wants to know when everything before is written.
    Flush(oneshot::Sender<()>),
}

/// Takes events. Clones feed the same queue.
#[derive(Debug, Clone)]
pub struct Recorder(Option<Queue>);

#[derive(Debug, Clone)]
struct Queue {
    entries: mpsc::Sender<Entry>,
    dropped: Arc<AtomicUsize>,
}

/// A recorder, and who writes down what it is told.
pub fn recorder(origin: Origin) -> (Recorder, Writer) {
    let (entries, waiting) = mpsc::channel(LONGEST_QUEUE);
    let dropped = Arc::default();
    let queue = Queue {
        entries,
        dropped: Arc::clone(&dropped),
    };
    (Recorder(Some(queue)), Writer::new(waiting, dropped, origin))
}

impl Recorder {
    /// Events are not for anybody: there is no API server, or nothing really happens.
    pub const fn to_nobody() -> Self {
        Self(None)
    }

    /// Something happened. Never waits.
    #[expect(clippy::disallowed_methods, reason = "events say when they happened")]
    pub fn say(&self, event: Event) {
        if let Some(queue) = &self.0 {
            let entry = Entry::Happened(event, SystemTime::now());
            if queue.entries.try_send(entry).is_err() {
                queue.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until everything said so far is written, or given up. For who is about to end the
    /// process, who should not wait for long.
    pub async fn flush(&self) {
        if let Some(queue) = &self.0 {
            let (done, is_done) = oneshot::channel();
            if queue.entries.send(Entry::Flush(done)).await.is_ok() {
                // An error means that the writer is gone, and nothing will be written.
                let _ = is_done.await;
            }
        }
    }
}
