//! The only one who writes events to the API server, one after the other.
//!
//! Apart from the [queue](super::recorder) because all waiting is here.
//!
//! Differs from upstream, where each event is written by itself: here those behind one that cannot
//! be written wait, so that a server that is away meets one attempt at a time, and not one per
//! event.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::object::Origin;
use super::recorder::Entry;
use super::series::{Known, Write, WriteKind};
use crate::watch::api::{self, ApiError, ApiServer};

/// How often one event is tried. Client-go's.
const TRIES: u32 = 12;

/// The wait between, and up to a quarter more. Client-go's.
const PAUSE: Duration = Duration::from_secs(10);

/// How often it is looked whether a series is over.
const LOOK: Duration = Duration::from_secs(60);

const NOT_FOUND: u16 = 404;
const TOO_MANY_REQUESTS: u16 = 429;

/// Writes what a [`Recorder`](super::Recorder) was told.
#[derive(Debug)]
pub struct Writer {
    waiting: Receiver<Entry>,
    dropped: Arc<AtomicUsize>,
    origin: Origin,
    known: Known,
    complaint: Complaint,
}

/// What was said of a server that takes no events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Complaint {
    /// Nothing, or it has taken one since.
    None,
    /// It was said.
    Made,
}

impl Writer {
    pub(super) fn new(waiting: Receiver<Entry>, dropped: Arc<AtomicUsize>, origin: Origin) -> Self {
        Self {
            waiting,
            dropped,
            origin,
            known: Known::default(),
            complaint: Complaint::None,
        }
    }

    /// What it was told and has not written.
    #[cfg(test)]
    pub(crate) fn told(&mut self) -> Vec<super::Event> {
        let entries = std::iter::from_fn(|| self.waiting.try_recv().ok());
        let events = entries.filter_map(|entry| match entry {
            Entry::Happened(event, _) => Some(event),
            Entry::Flush(_) => None,
        });
        events.collect()
    }

    /// Writes to this server, for ever.
    pub async fn run(mut self, server: &ApiServer) -> Infallible {
        loop {
            let writes = tokio::select! {
                entry = self.waiting.recv() => match entry {
                    Some(Entry::Happened(event, at)) => {
                        Vec::from_iter(self.known.came(&event, &self.origin, at))
                    }
                    Some(Entry::Flush(done)) => {
                        // Whoever asked may have given up.
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

    /// Tries for some minutes.
    async fn write(&mut self, server: &ApiServer, write: &Write) {
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
            let pause = PAUSE.mul_f64(1.0 + api::roll() / 4.0);
            sleep(pause.max(error.retry_after())).await;
        }
    }
}

/// The server will not change its mind.
fn is_final(error: &ApiError) -> bool {
    let is_final = |code: u16| code < 500 && code != TOO_MANY_REQUESTS;
    error.status().is_some_and(is_final)
}

/// An event of which the server knows no more is made anew, series and all.
async fn send(server: &ApiServer, write: &Write) -> Result<(), ApiError> {
    let Write {
        collection, object, ..
    } = write;
    if write.kind == WriteKind::Series {
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let path = format!("{collection}/{}", name.unwrap_or_default());
        let change = json!({"series": object.get("series")}).to_string();
        let patched = api::write(server, Method::PATCH, &path, change).await;
        if patched.as_ref().map_err(ApiError::status) != Err(Some(NOT_FOUND)) {
            return patched;
        }
    }
    api::write(server, Method::POST, collection, object.to_string()).await
}

#[expect(clippy::disallowed_methods, reason = "the shell reads the clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
#[path = "tests/writer.rs"]
mod tests;
