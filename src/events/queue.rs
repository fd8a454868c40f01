//! Queue of Events, and the task that writes them to the API server, one after the other.
//!
//! Recording never blocks: an Event that finds the queue full is dropped and counted.
//!
//! Differs from upstream: Events wait behind one that cannot be written, so that a server that is
//! not available gets one attempt at a time. kube-proxy writes each Event on its own. An Event of
//! the same reason and Service is not written again for half an hour; kube-proxy counts repeated
//! ones in a series.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::events::v1::Event as EventObject;
use kube::Resource;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tracing::warn;

use super::event::{Event, Origin, object};
use crate::model::ServiceName;
use crate::watch::api::{self, ApiClient, ApiError};

/// Maximum Events that wait while the server does not answer. Only a node with hundreds of health
/// check ports in use has more at once.
const LONGEST_QUEUE: usize = 256;

/// Entry of the queue.
#[derive(Debug)]
enum QueueEntry {
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
    fn with_queue() -> (Self, mpsc::Receiver<QueueEntry>, Arc<AtomicUsize>) {
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
    #[expect(
        clippy::disallowed_methods,
        reason = "an Event holds the time at which it happened"
    )]
    pub(crate) fn record(&self, event: Event) {
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

/// Maximum attempts for one Event, as in client-go.
const TRIES: u32 = 12;

/// Wait between two attempts, with up to a quarter of jitter, as in client-go.
const PAUSE: Duration = Duration::from_secs(10);

/// Time in which an Event of the same reason and Service is not written again: the server deletes
/// Events after an hour.
const REPEAT_INTERVAL: Duration = Duration::from_secs(30 * 60);

/// Maximum Events that are remembered; further ones are written.
const MAX_WRITTEN: usize = 1000;

const TOO_MANY_REQUESTS: u16 = 429;

/// Writes the Events of a [`Recorder`].
#[derive(Debug)]
pub(crate) struct Writer {
    waiting: mpsc::Receiver<QueueEntry>,
    dropped: Arc<AtomicUsize>,
    origin: Origin,
    /// Time of the last Event of each reason and Service.
    written: BTreeMap<(&'static str, Option<ServiceName>), SystemTime>,
}

/// Returns a recorder and the writer of its Events.
pub(crate) fn recorder(origin: Origin) -> (Recorder, Writer) {
    let (recorder, waiting, dropped) = Recorder::with_queue();
    let writer = Writer {
        waiting,
        dropped,
        origin,
        written: BTreeMap::new(),
    };
    (recorder, writer)
}

impl Writer {
    /// Writes to this server; never returns.
    pub(crate) async fn run(mut self, server: &ApiClient) -> Infallible {
        loop {
            match self.waiting.recv().await {
                Some(QueueEntry::Happened(event, at)) => {
                    if self.is_due(&event, at) {
                        self.write(server, &object(&event, &self.origin, at)).await;
                    }
                }
                // The receiver may have timed out.
                Some(QueueEntry::Flush(done)) => drop(done.send(())),
                None => std::future::pending().await,
            }
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                warn!(
                    dropped,
                    "dropped events, because the queue of events to write was full"
                );
            }
        }
    }

    /// Reports whether an Event is not a repetition, and remembers it.
    fn is_due(&mut self, event: &Event, at: SystemTime) -> bool {
        let is_recent = |then: &SystemTime| {
            at.duration_since(*then)
                .is_ok_and(|age| age < REPEAT_INTERVAL)
        };
        let fields = event.fields();
        let key = (fields.reason, fields.service.cloned());
        if self.written.get(&key).is_some_and(is_recent) {
            return false;
        }
        self.written.retain(|_, then| is_recent(then));
        if self.written.len() < MAX_WRITTEN {
            self.written.insert(key, at);
        }
        true
    }

    /// Writes an Event, with retries for some minutes.
    async fn write(&self, server: &ApiClient, object: &EventObject) {
        let path = EventObject::url_path(&(), object.metadata.namespace.as_deref());
        for attempt in 1..=TRIES {
            let Err(error) = api::send_object(server, &path, object).await else {
                return;
            };
            let cause = error.in_full();
            warn!(
                server = server.address(),
                error = cause,
                "cannot write an event"
            );
            if is_final(&error) || attempt == TRIES {
                return;
            }
            let pause = PAUSE.mul_f64(1.0 + fastrand::f64() / 4.0);
            sleep(pause.max(error.retry_after())).await;
        }
    }
}

/// Reports whether another attempt would fail in the same way.
fn is_final(error: &ApiError) -> bool {
    let is_final = |code: u16| code < 500 && code != TOO_MANY_REQUESTS;
    error.status().is_some_and(is_final)
}

#[cfg(test)]
#[path = "tests/queue.rs"]
mod tests;
