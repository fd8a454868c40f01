//! Watchdog: finds threads that have stalled.
//!
//! The pages have a thread of their own. Without a watchdog they would report the last known state
//! while a family is stuck, and the kubelet would not restart the process.
//!
//! Differs from upstream: in kube-proxy `/livez` depends on syncs alone, and stays 200 if the
//! process is stuck while no sync is due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;

use super::HealthPages;
use crate::clock;
use crate::net::Locked;
use crate::telemetry::Reply;

/// Heartbeats within the timeout: a busy thread may miss some.
const HEARTBEATS: u32 = 4;

/// Last heartbeats of all watched threads. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Watchdog {
    threads: Arc<Locked<Vec<Watched>>>,
    patience: Duration,
}

#[derive(Debug)]
struct Watched {
    thread: &'static str,
    last: Instant,
    /// Heartbeat after which a stall was logged.
    logged: Option<Instant>,
}

/// Heartbeat of one thread, which is watched until this is dropped.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    watchdog: Watchdog,
    thread: &'static str,
}

impl Watchdog {
    pub(crate) fn new(patience: Duration) -> Self {
        let threads = Arc::default();
        Self { threads, patience }
    }

    pub(crate) fn watch(&self, thread: &'static str) -> Heartbeat {
        self.threads.lock().push(Watched {
            thread,
            last: clock::instant(),
            logged: None,
        });
        let watchdog = self.clone();
        Heartbeat { watchdog, thread }
    }

    /// Answers as `pages` does, or 503 while a thread has stalled.
    pub(crate) fn answer(&self, pages: &HealthPages, request: &Request<Bytes>) -> Reply {
        pages.answer_while(&self.stalled(), request)
    }

    /// Returns the names of all threads that have stalled.
    fn stalled(&self) -> Vec<&'static str> {
        let (now, mut stalled) = (clock::instant(), Vec::new());
        for watched in self.threads.lock().iter_mut() {
            let silent = now.saturating_duration_since(watched.last);
            if silent >= self.patience {
                stalled.push(watched.thread);
                watched.log(silent);
            }
        }
        stalled
    }
}

impl Watched {
    /// Logs a stall once, on a thread that no other one waits for: the stalled thread may be stuck
    /// in the log.
    fn log(&mut self, silent: Duration) {
        if self.logged.replace(self.last) != Some(self.last) {
            let thread = self.thread;
            std::thread::spawn(move || {
                tracing::error!(
                    thread,
                    "thread stalled for {silent:?}: health answers 503 until it goes on, so that \
                     the process is restarted; the rules stay as they are"
                );
            });
        }
    }
}

impl Heartbeat {
    /// Sends heartbeats; has to be polled by the watched thread.
    pub(crate) async fn beat<T>(&self) -> T {
        loop {
            for watched in self.watchdog.threads.lock().iter_mut() {
                if watched.thread == self.thread {
                    watched.last = clock::instant();
                }
            }
            tokio::time::sleep(self.watchdog.patience / HEARTBEATS).await;
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        let thread = self.thread;
        self.watchdog
            .threads
            .lock()
            .retain(|watched| watched.thread != thread);
    }
}

#[cfg(test)]
#[path = "tests/watchdog.rs"]
mod tests;
