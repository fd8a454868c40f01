//! Listening sockets of health check node ports: their limit, and the delays of attempts to open
//! them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::telemetry::{ListenError, listen_in_family};

/// First delay: a port is often in use for a moment only, by a connection or by a program that is
/// ending.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest delay: another program listens on the port.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Failure to open a socket of a health check node port.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckListenError {
    /// All sockets that health check node ports may have are in use.
    #[error("too many health check node ports for the limit of open files")]
    NoSocketLeft,
    /// The kernel refuses it.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// Listens on an address of one family, unless all sockets are in use.
///
/// Differs from upstream: kube-proxy listens until the process is out of open files, and then
/// starts no program and answers no probe.
pub(super) fn listen_within(
    sockets: &Arc<Semaphore>,
    address: SocketAddr,
) -> Result<(TcpListener, OwnedSemaphorePermit), CheckListenError> {
    let permit = Arc::clone(sockets).try_acquire_owned();
    let permit = permit.map_err(|_| CheckListenError::NoSocketLeft)?;
    Ok((listen_in_family(address)?, permit))
}

/// Port that could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListenRetry {
    wait: Duration,
    /// Time of the next attempt.
    pub due: Instant,
}

impl ListenRetry {
    /// Returns the state after the first failure.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            wait: FIRST_RETRY,
            due: now + FIRST_RETRY,
        }
    }

    /// Notes another failure. An attempt before it was due does not make the delay longer.
    pub(super) fn failed(&mut self, now: Instant) {
        if now >= self.due {
            self.wait = (self.wait * 2).min(LONGEST_RETRY);
            self.due = now + self.wait;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_a_minute() {
        let start = Instant::now();
        let mut retry = ListenRetry::new(start);
        let mut waits = vec![(retry.due - start).as_secs()];
        for _ in 0..8 {
            let now = retry.due;
            retry.failed(now);
            waits.push((retry.due - now).as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[tokio::test(start_paused = true)]
    async fn tries_between_do_not_count() {
        let start = Instant::now();
        let mut retry = ListenRetry::new(start);
        let before = retry;
        retry.failed(start + FIRST_RETRY / 2);
        assert_eq!(retry, before);
    }
}
