//! Runs the work of one family on a thread of its own.
//!
//! A family that renders tens of thousands of Services computes for seconds: on a thread of its
//! own it delays neither the other family nor the watches of the API server.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::health::Watchdog;
use crate::net::IpFamily;

/// Time that a thread gets to kill its restore when the process exits. A thread that still
/// computes is abandoned then; the kernel never applies a part of a table.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// Running thread. Dropping it cancels the work, which kills a restore.
struct RunningThread {
    cancel: CancellationToken,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl Drop for RunningThread {
    fn drop(&mut self) {
        self.cancel.cancel();
        let _ = self.ended.recv_timeout(KILL_TIMEOUT);
    }
}

/// Runs the work on a thread with a runtime of its own, and waits until it ends. The watchdog
/// notices a thread that stalls.
///
/// # Errors
///
/// Errors of the work; or the thread or its runtime cannot be started.
pub(super) async fn run<F: Future<Output = anyhow::Result<()>>>(
    family: IpFamily,
    watchdog: &Watchdog,
    work: impl FnOnce() -> F + Send + 'static,
) -> anyhow::Result<()> {
    let watchdog = watchdog.clone();
    let cancel = CancellationToken::new();
    let (result, returned) = oneshot::channel();
    let (ends, ended) = channel();
    let running = RunningThread {
        cancel: cancel.clone(),
        ended,
    };
    let body = move || {
        let _ends: Sender<()> = ends;
        let done = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Into::into)
            .and_then(|runtime| {
                runtime.block_on(async {
                    let heartbeat = watchdog.watch(family.as_str());
                    tokio::select! {
                        done = work() => done,
                        () = cancel.cancelled() => Ok(()),
                        never = heartbeat.beat() => never,
                    }
                })
            });
        // Without a receiver the process is about to exit.
        let _ = result.send(done);
    };
    thread::Builder::new()
        .name(family.as_str().to_owned())
        .spawn(body)
        .with_context(|| format!("cannot start a thread for {family}"))?;
    let done = returned.await;
    drop(running);
    done.with_context(|| format!("the {family} thread ended unexpectedly"))?
}

#[cfg(test)]
#[path = "tests/family_thread.rs"]
mod tests;
