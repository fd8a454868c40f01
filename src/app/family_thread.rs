//! The thread of one family.
//!
//! Kept separate from [`families`](super::families), which do not depend on where they run. A
//! family that renders tens of thousands of Services computes for seconds: on a thread of its own
//! it delays neither the other family nor the watches of the API server.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::health::Watchdog;
use crate::net::IpFamily;

/// Time that a thread gets to kill its restore when the process ends: one that computes is not
/// waited for any longer, and the kernel never applies a part of a table.
const KILL: Duration = Duration::from_secs(1);

/// A thread that runs. Dropped, its work is given up, and with it a restore is killed.
struct Running {
    given_up: CancellationToken,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.given_up.cancel();
        let _ = self.ended.recv_timeout(KILL);
    }
}

/// Does the work on a thread of its own, with a runtime of its own, and waits for its end. The
/// watchdog hears of a thread that stalls.
///
/// # Errors
///
/// Those of the work; or there is no thread or no runtime to be had.
pub(super) async fn run<F: Future<Output = anyhow::Result<()>>>(
    family: IpFamily,
    watchdog: &Watchdog,
    work: impl FnOnce() -> F + Send + 'static,
) -> anyhow::Result<()> {
    let watchdog = watchdog.clone();
    let given_up = CancellationToken::new();
    let (result, returned) = oneshot::channel();
    let (ends, ended) = channel();
    let running = Running {
        given_up: given_up.clone(),
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
                        () = given_up.cancelled() => Ok(()),
                        never = heartbeat.beat() => never,
                    }
                })
            });
        // Without a receiver the process is about to end.
        let _ = result.send(done);
    };
    thread::Builder::new()
        .name(family.as_str().to_owned())
        .spawn(body)
        .with_context(|| format!("cannot start a thread for {family}"))?;
    let done = returned.await;
    drop(running);
    done.with_context(|| format!("the thread of {family} has ended"))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join;

    const LONG: Duration = Duration::from_secs(20);

    /// On one thread for both, the second family would never begin.
    #[tokio::test]
    async fn a_family_that_computes_does_not_delay_the_other() {
        let (sender, receiver) = channel();
        let watchdog = Watchdog::new(LONG);
        let computes = run(IpFamily::V4, &watchdog, move || async move {
            receiver.recv_timeout(LONG).context("IPv6 has to wait")
        });
        let other = run(IpFamily::V6, &watchdog, move || async move {
            Ok(sender.send(())?)
        });
        let (first, second) = join(computes, other).await;
        first.unwrap();
        second.unwrap();
    }

    /// Dropping what a family waits for is how its restore is killed.
    #[tokio::test]
    async fn work_that_is_given_up_is_dropped_before_the_process_ends() {
        let (sender, receiver) = channel::<()>();
        let watchdog = Watchdog::new(LONG);
        let work = run(IpFamily::V4, &watchdog, move || async move {
            let _restore = sender;
            std::future::pending().await
        });
        let given_up = tokio::time::timeout(Duration::from_millis(50), work).await;
        assert!(given_up.is_err());
        assert_eq!(
            receiver.try_recv(),
            Err(std::sync::mpsc::TryRecvError::Disconnected)
        );
    }

    #[tokio::test]
    async fn errors_of_the_work_are_returned() {
        let watchdog = Watchdog::new(LONG);
        let failed = run(IpFamily::V6, &watchdog, || async { anyhow::bail!("no") });
        assert_eq!(failed.await.unwrap_err().to_string(), "no");
    }
}
