//! Queue of Events. It never blocks: an Event that finds the queue full is dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use tokio::sync::{mpsc, oneshot};

use super::Event;

/// Maximum Events that wait while the server does not answer. Only a node with hundreds of health
/// check ports in use has more at once.
const LONGEST_QUEUE: usize = 256;

/// Entry of the queue.
#[derive(Debug)]
pub(super) enum QueueEntry {
    /// Event, with its time.
    Happened(Event, SystemTime),
    /// Request to report when all entries before are written.
    Flush(oneshot::Sender<()>),
}

/// Takes Events. Clones share one queue.
#[derive(Debug, Clone)]
pub(crate) struct Recorder(Option<Queue>);

#[derive(Debug, Clone)]
struct Queue {
    entries: mpsc::Sender<QueueEntry>,
    dropped: Arc<AtomicUsize>,
}

impl Recorder {
    /// Returns a recorder with the other end of its queue and the number of dropped Events.
    pub(super) fn with_queue() -> (Self, mpsc::Receiver<QueueEntry>, Arc<AtomicUsize>) {
        let (entries, waiting) = mpsc::channel(LONGEST_QUEUE);
        let dropped = Arc::default();
        let queue = Queue {
            entries,
            dropped: Arc::clone(&dropped),
        };
        (Self(Some(queue)), waiting, dropped)
    }

    /// Returns a recorder that drops all Events, for dry runs and without an API server.
    pub(crate) const fn disabled() -> Self {
        Self(None)
    }

    /// Adds an Event. Never blocks.
    #[expect(clippy::disallowed_methods, reason = "events say when they happened")]
    pub(crate) fn say(&self, event: Event) {
        if let Some(queue) = &self.0 {
            let entry = QueueEntry::Happened(event, SystemTime::now());
            if queue.entries.try_send(entry).is_err() {
                queue.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until all Events so far are written or dropped, for the end of the process; callers
    /// set a timeout.
    pub(crate) async fn flush(&self) {
        if let Some(queue) = &self.0 {
            let (done, is_done) = oneshot::channel();
            if queue.entries.send(QueueEntry::Flush(done)).await.is_ok() {
                // An error means that the writer is gone, and nothing will be written.
                let _ = is_done.await;
            }
        }
    }
}
