//! When to try again what could not be opened.
//!
//! Apart, and told the time, so that it can be tested by the second.

use std::time::Duration;

use tokio::time::Instant;

/// A port is often taken for a moment only: by a connection that uses the number, or by a program
/// that is just ending.
const FIRST: Duration = Duration::from_secs(1);
/// Then it is somebody's own, and a look each minute costs nothing.
const LONGEST: Duration = Duration::from_secs(60);

/// One thing that does not work yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retry {
    wait: Duration,
    /// When it is tried again.
    pub(super) due: Instant,
}

impl Retry {
    /// It failed for the first time.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            wait: FIRST,
            due: now + FIRST,
        }
    }

    /// It failed again. A try before it was due, because something else happened, does not make the
    /// waits longer.
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
        let mut retry = Retry::new(start);
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
        let mut retry = Retry::new(start);
        let before = retry;
        retry.failed(start + FIRST / 2);
        assert_eq!(retry, before);
    }
}
