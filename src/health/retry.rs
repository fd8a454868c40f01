//! Retry delays for ports that could not be opened.

use std::time::Duration;

use tokio::time::Instant;

/// First delay: a port is often in use for a moment only, by a connection or by a program that is
/// ending.
const FIRST: Duration = Duration::from_secs(1);
/// Longest delay: another program listens on the port.
const LONGEST: Duration = Duration::from_secs(60);

/// Port that could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListenRetry {
    wait: Duration,
    /// Time of the next attempt.
    pub(super) due: Instant,
}

impl ListenRetry {
    /// Returns the state after the first failure.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            wait: FIRST,
            due: now + FIRST,
        }
    }

    /// Notes another failure. An attempt before it was due does not make the delay longer.
    pub(super) fn failed(&mut self, now: Instant) {
        if now >= self.due {
            self.wait = (self.wait * 2).min(LONGEST);
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
        retry.failed(start + FIRST / 2);
        assert_eq!(retry, before);
    }
}
