//! How long to wait after a failure.
//!
//! Apart, and without a clock or dice of its own, because it is what thousands of nodes do to a
//! server that is just coming back.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/cache/reflector.go, `NewReflectorWithOptions` (v1.36)

use std::time::Duration;

/// The shortest wait after a first failure. Client-go's.
const FIRST: Duration = Duration::from_millis(800);
/// No wait is longer. Client-go's, which with its jitter can double; this one can't.
const LONGEST: Duration = Duration::from_secs(30);

/// Failures since the last success.
///
/// # Invariants
///
/// A complete list, an event or the orderly end of a watch counts as success: an answered request
/// alone does not, or a server that accepts and fails at once would be asked without pause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Counts a failure. Returns the wait: doubling each time, and spread by `roll` (0 to 1) over
    /// up to twice itself so that nodes which failed together do not come back together.
    pub(super) fn failed(&mut self, roll: f64) -> Duration {
        let doublings = self.failures.min(10);
        self.failures = self.failures.saturating_add(1);
        let wait = (FIRST * 2_u32.pow(doublings)).min(LONGEST / 2);
        wait.mul_f64(1.0 + roll.clamp(0.0, 1.0))
    }

    /// Starts over.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }
}
