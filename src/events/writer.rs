//! Writes Events to the API server, one after the other.
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
use tokio::sync::mpsc::Receiver;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::object::Origin;
use super::recorder::{QueueEntry, Recorder};
use super::series::{KnownSeries, Write, WriteKind};
use crate::watch::api::{self, ApiClient, ApiError};

/// Maximum attempts for one Event, as in client-go.
const TRIES: u32 = 12;

/// Wait between two attempts, with up to a quarter of jitter, as in client-go.
const PAUSE: Duration = Duration::from_secs(10);

/// Interval of the search for series that ended.
const LOOK: Duration = Duration::from_secs(60);

const NOT_FOUND: u16 = 404;
const TOO_MANY_REQUESTS: u16 = 429;

/// Writes the Events of a [`Recorder`].
#[derive(Debug)]
pub(crate) struct Writer {
    waiting: Receiver<QueueEntry>,
    dropped: Arc<AtomicUsize>,
    origin: Origin,
    known: KnownSeries,
    complaint: Complaint,
}

/// State of the log line about a server that rejects Events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Complaint {
    /// Not logged, or an Event was accepted since.
    None,
    /// Logged.
    Made,
}

/// Returns a recorder and the writer of its Events.
pub(crate) fn recorder(origin: Origin) -> (Recorder, Writer) {
    let (recorder, waiting, dropped) = Recorder::with_queue();
    let writer = Writer {
        waiting,
        dropped,
        origin,
        known: KnownSeries::default(),
        complaint: Complaint::None,
    };
    (recorder, writer)
}

impl Writer {
    /// Queue of Events that are not written yet.
    #[cfg(test)]
    pub(crate) fn told(&mut self) -> Vec<super::Event> {
        let entries = std::iter::from_fn(|| self.waiting.try_recv().ok());
        let events = entries.filter_map(|entry| match entry {
            QueueEntry::Happened(event, _) => Some(event),
            QueueEntry::Flush(_) => None,
        });
        events.collect()
    }

    /// Writes to this server; never returns.
    pub(crate) async fn run(mut self, server: &ApiClient) -> Infallible {
        loop {
            let writes = tokio::select! {
                entry = self.waiting.recv() => match entry {
                    Some(QueueEntry::Happened(event, at)) => {
                        Vec::from_iter(self.known.came(&event, &self.origin, at))
                    }
                    Some(QueueEntry::Flush(done)) => {
                        // The receiver may have timed out.
                        let _ = done.send(());
                        continue;
                    }
                    None => std::future::pending().await,
                },
                () = sleep(LOOK), if !self.known.is_empty() => self.known.passed(now()),
            };
            for write in writes {
                self.write(server, &write).await;
            }
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                warn!(dropped, "more happened than could be written as events");
            }
        }
    }

    /// Sends a request, with retries for some minutes.
    async fn write(&mut self, server: &ApiClient, write: &Write) {
        for attempt in 1..=TRIES {
            let Err(error) = send(server, write).await else {
                if std::mem::replace(&mut self.complaint, Complaint::None) == Complaint::Made {
                    info!("events are written again");
                }
                return;
            };
            let is_final = is_final(&error) || attempt == TRIES;
            if std::mem::replace(&mut self.complaint, Complaint::Made) == Complaint::None {
                let error = error.in_full();
                warn!(server = server.address(), error, "cannot write an event");
            } else {
                debug!(attempt, error = error.in_full(), "cannot write an event");
            }
            if is_final {
                return;
            }
            let pause = PAUSE.mul_f64(1.0 + fastrand::f64() / 4.0);
            sleep(pause.max(error.retry_after())).await;
        }
    }
}

/// Reports whether another attempt would fail alike.
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
#[path = "tests/writer.rs"]
mod tests;
