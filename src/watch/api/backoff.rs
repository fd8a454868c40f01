//! How long to wait after a failure.
//!
//! Kept separate from [`follow`](super::follow), without a clock or jitter of its own, because it
//! is what thousands of nodes do to a server that is just coming back.
//!
//! # Invariants
//!
//! - Delays grow until the server has worked for [`HEALTHY`], whatever it answers in between: a
//!   list, an event or a bookmark alone makes none shorter, or a server that gives each list and
//!   refuses each watch would be asked for everything without end.
//! - The one exception is an expired resource version: the first since the server last worked may
//!   be answered soon.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/cache/reflector.go, `NewReflectorWithOptions` (v1.36)
//!
//! Differs from upstream: there delays start over two minutes after the last failure.

use std::time::Duration;

use tokio::time::Instant;

use super::position::RetryDelay;

/// The shortest wait after a first failure. Client-go's.
const FIRST: Duration = Duration::from_millis(800);

/// No wait is longer. Client-go's, which with its jitter can double; this one can't.
const LONGEST: Duration = Duration::from_secs(30);

/// Time that watches must work before delays start over. As long as the longest delay: a server
/// that works for just as long between failures is asked no more often than one that never works.
const HEALTHY: Duration = LONGEST;

/// Failures since the server last worked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
    has_hurried: bool,
    /// Since when lists and watches have worked without a failure.
    working_since: Option<Instant>,
}

impl Backoff {
    /// A list is complete, or the server has accepted a watch that resumes.
    pub(super) fn working(&mut self, now: Instant) {
        self.working_since.get_or_insert(now);
    }

    /// Counts a failure. Returns the wait: doubling each time, and spread by `jitter` (0 to 1) over
    /// up to twice itself so that nodes which failed together do not come back together.
    pub(super) fn failed(&mut self, delay: RetryDelay, now: Instant, jitter: f64) -> Duration {
        let worked = self.working_since.take();
        if worked.is_some_and(|since| now.saturating_duration_since(since) >= HEALTHY) {
            *self = Self::default();
        }
        if delay == RetryDelay::Short && !self.has_hurried {
            self.has_hurried = true;
            return spread(FIRST, jitter);
        }
        let doublings = self.failures.min(10);
        self.failures = self.failures.saturating_add(1);
        spread((FIRST * 2_u32.pow(doublings)).min(LONGEST / 2), jitter)
    }
}

/// The wait before a watch that brought something and ended at once is opened again: not a
/// failure, and yet no reason to ask without pause.
pub(super) fn short_wait(jitter: f64) -> Duration {
    spread(FIRST, jitter)
}

fn spread(wait: Duration, jitter: f64) -> Duration {
    wait.mul_f64(1.0 + jitter.clamp(0.0, 1.0))
}
