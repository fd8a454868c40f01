//! Finds threads that have stalled, so that health does not depend on them to say so.
//!
//! Kept separate from the pages, which have a thread of their own: they would go on reporting the
//! last known state while a family is stuck for good, and nothing would restart the process.
//!
//! Differs from upstream, where `/livez` depends on syncs alone: a process that is stuck while none
//! is due stays alive for ever.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::request::Parts;

use super::HealthPages;
use crate::telemetry::Reply;

/// Heartbeats in the time that a thread may be silent: enough for a busy one to miss some.
const HEARTBEATS: u32 = 4;

/// The last heartbeats of all threads that have work. Clones share them.
#[derive(Debug, Clone)]
pub struct Watchdog {
    threads: Arc<Mutex<Vec<Watched>>>,
    patience: Duration,
}

#[derive(Debug)]
struct Watched {
    thread: &'static str,
    last: Instant,
    /// The heartbeat after which it was logged that no further one came.
    logged: Option<Instant>,
}

/// The sign of life of one thread, which is watched until this is dropped.
#[derive(Debug)]
pub struct Heartbeat {
    watchdog: Watchdog,
    thread: &'static str,
}

impl Watchdog {
    /// Watches threads that may be silent for so long.
    pub fn new(patience: Duration) -> Self {
        let threads = Arc::default();
        Self { threads, patience }
    }

    /// Watches one more thread from now on.
    pub fn watch(&self, thread: &'static str) -> Heartbeat {
        self.threads().push(Watched {
            thread,
            last: now(),
            logged: None,
        });
        let watchdog = self.clone();
        Heartbeat { watchdog, thread }
    }

    /// Answers as `pages` does; while a thread has stalled, that nothing is healthy.
    pub fn answer(&self, pages: &HealthPages, request: &Parts) -> Reply {
        pages.answer_while(&self.stalled(), request)
    }

    /// The names of all threads that have stalled.
    fn stalled(&self) -> Vec<&'static str> {
        let (now, mut stalled) = (now(), Vec::new());
        for watched in self.threads().iter_mut() {
            let silent = now.saturating_duration_since(watched.last);
            if silent >= self.patience {
                stalled.push(watched.thread);
                watched.log(silent);
            }
        }
        stalled
    }

    fn threads(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// Once for each time that the thread stalls, and on a thread that nothing waits for: it may be
    /// the log that the other one is stuck in.
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
    /// Gives a sign of life again and again. To be polled by the thread that it is about.
    pub async fn beat<T>(&self) -> T {
        loop {
            for watched in self.watchdog.threads().iter_mut() {
                if watched.thread == self.thread {
                    watched.last = now();
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
            .threads()
            .retain(|watched| watched.thread != thread);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where a request meets the clock"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
#[path = "tests/watchdog.rs"]
mod tests;
