//! Queue of Events, and the task that writes them to the API server, one after the other.
//!
//! Recording never blocks: an Event that finds the queue full is dropped and counted.
//!
//! Differs from upstream: Events wait behind one that cannot be written, so that a server that is
//! not available gets one attempt at a time. kube-proxy writes each Event on its own.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use http::Method;
use k8s_openapi::api::events::v1::Event as EventObject;
use kube::Resource;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::event::{Event, KnownSeries, Origin, Write, WriteKind};
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

/// Interval of checks for series that ended.
const SERIES_CHECK_INTERVAL: Duration = Duration::from_secs(60);

const NOT_FOUND: u16 = 404;
const TOO_MANY_REQUESTS: u16 = 429;

/// Writes the Events of a [`Recorder`].
#[derive(Debug)]
pub(crate) struct Writer {
    waiting: mpsc::Receiver<QueueEntry>,
    dropped: Arc<AtomicUsize>,
    origin: Origin,
    known: KnownSeries,
    /// A failure was logged, and no Event was accepted since then.
    has_logged_failure: bool,
}

/// Returns a recorder and the writer of its Events.
pub(crate) fn recorder(origin: Origin) -> (Recorder, Writer) {
    let (recorder, waiting, dropped) = Recorder::with_queue();
    let writer = Writer {
        waiting,
        dropped,
        origin,
        known: KnownSeries::default(),
        has_logged_failure: false,
    };
    (recorder, writer)
}

impl Writer {
    /// Writes to this server; never returns.
    pub(crate) async fn run(mut self, server: &ApiClient) -> Infallible {
        loop {
            let writes = tokio::select! {
                entry = self.waiting.recv() => match entry {
                    Some(QueueEntry::Happened(event, at)) => {
                        Vec::from_iter(self.known.add(&event, &self.origin, at))
                    }
                    Some(QueueEntry::Flush(done)) => {
                        // The receiver may have timed out.
                        let _ = done.send(());
                        continue;
                    }
                    None => std::future::pending().await,
                },
                () = sleep(SERIES_CHECK_INTERVAL), if !self.known.is_empty() => self.known.expire(now()),
            };
            for write in writes {
                self.write(server, &write).await;
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

    /// Sends a request, with retries for some minutes.
    async fn write(&mut self, server: &ApiClient, write: &Write) {
        for attempt in 1..=TRIES {
            let Err(error) = send(server, write).await else {
                if std::mem::take(&mut self.has_logged_failure) {
                    info!("events are written again");
                }
                return;
            };
            let is_final = is_final(&error) || attempt == TRIES;
            if std::mem::replace(&mut self.has_logged_failure, true) {
                debug!(attempt, error = error.in_full(), "cannot write an event");
            } else {
                let error = error.in_full();
                warn!(server = server.address(), error, "cannot write an event");
            }
            if is_final {
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

/// Sends one request. An Event that the server has deleted is created again, with its series.
async fn send(server: &ApiClient, write: &Write) -> Result<(), ApiError> {
    let EventObject {
        metadata, series, ..
    } = &write.object;
    let collection = EventObject::url_path(&(), metadata.namespace.as_deref());
    if write.kind == WriteKind::Series {
        let name = metadata.name.as_deref().unwrap_or_default();
        let path = format!("{collection}/{name}");
        let change = json!({"series": series});
        let patched = api::send_object(server, Method::PATCH, &path, &change).await;
        if patched.as_ref().map_err(ApiError::status) != Err(Some(NOT_FOUND)) {
            return patched;
        }
    }
    api::send_object(server, Method::POST, &collection, &write.object).await
}

#[expect(clippy::disallowed_methods, reason = "the shell reads the clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
#[path = "tests/queue.rs"]
mod tests;
