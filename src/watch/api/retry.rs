//! Decides which request follows a failure, and after which delay.
//!
//! Terms are defined in the header of `api/mod.rs`.
//!
//! | failed request | error | next request | delay | counter |
//! |---|---|---|---|---|
//! | WatchList | 4xx (not 401, 403, 404, 408, 410, 429), 501, timeout, protocol error | LIST | none | 0 |
//! | WatchList | body aborted | LIST | backoff | 0 |
//! | WatchList | 401, 403, 429, 502, 503, no connection | WatchList | backoff | unchanged |
//! | WatchList | any other | WatchList; after 3: LIST | backoff | `failures` + 1 |
//! | LIST | no connection | LIST | backoff | unchanged |
//! | LIST | any other | LIST; after 3: WatchList | backoff | `failures` + 1 |
//! | watch | 410 | WatchList | short once, then backoff | 0 |
//! | watch | 401, 403, 429, 502, 503, no connection | resume | backoff | unchanged |
//! | watch | protocol error | resume; after 3: WatchList | backoff | `protocol_errors` + 1 |
//! | watch | any other, also a very short watch | resume; after 3: WatchList | backoff | `failures` + 1 |
//! | watch | none: it ended | resume | none; 0.8-1.6 s if open for less than 5 s | unchanged |
//!
//! A WatchList counts as a watch once its initial events are complete. An event sets `failures` of
//! a watch to 0, and a complete list both counters. Short is 0.8 s, and backoff is 0.8 s, doubled
//! with each failure up to 15 s; jitter extends both to up to twice the time. `Retry-After`, at
//! most 60 s, is the minimum of each delay but "none".
//!
//! Clock and jitter are arguments, so that tests cover every decision: when a server comes back,
//! thousands of nodes decide at the same time, and a wrong decision would overload it.
//!
//! # Invariants
//!
//! - No single success resets the backoff, only [`BACKOFF_RESET`] without a failure: otherwise a
//!   server that accepts every LIST and rejects every WATCH would be relisted in a tight loop.
//! - One exception: the first 410 Gone of a watch since the last reset has one short delay, however
//!   long the backoff is. An API server that restarts sends 410 to every node.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/cache/reflector.go, `NewReflectorWithOptions` (v1.37)
//!
//! Differs from upstream: there the backoff is reset two minutes after the last failure, whether
//! or not requests have succeeded since.

use std::time::Duration;

use tokio::time::Instant;

use super::error::ApiError;
use crate::net::DoublingDelay;

/// Failures after which another kind of request is tried: WatchList instead of a watch that
/// resumes, LIST instead of WatchList, and WatchList instead of LIST. Without a limit, one event
/// that the server cannot deliver would block its kind for ever. A restart of the server aborts the
/// open watch, which is one failure: with a limit of two, two restarts without an event in between
/// would make the server send all objects again.
const MAX_FAILURES: u8 = 3;

/// Next request of a reflector. Known objects stay in use after every failure, also after 410 Gone:
/// that makes only the resource version unusable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextRequest {
    /// WatchList: the server sends all objects as events, and then changes.
    WatchList { failures: u8 },
    /// LIST, because WatchList has failed. Later relists begin with WatchList again, since the
    /// server may have been upgraded.
    List { failures: u8 },
    /// Watch from a resource version: events up to it were received.
    WatchFrom {
        /// Opaque text.
        resource_version: String,
        /// Number of failed requests since the last event, without protocol errors.
        failures: u8,
        /// Number of protocol errors since the last list. Events do not reset it: otherwise a
        /// server that sends a valid event before each invalid one would never be relisted.
        protocol_errors: u8,
    },
}

/// Delay before the next request after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryDelay {
    /// No delay: another kind of request may work at once.
    None,
    /// Minimum delay, the first time after the backoff was reset; later times like
    /// [`RetryDelay::Backoff`]. For 410 Gone: a restarted server sends it to every node, after an
    /// outage that has made their backoffs long.
    ShortOnce,
    /// Delay that is doubled each time.
    Backoff,
}

impl NextRequest {
    /// Returns the first request of a reflector.
    pub(super) fn new() -> Self {
        Self::WatchList { failures: 0 }
    }

    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::WatchList { .. } => "watchlist",
            Self::List { .. } => "list",
            Self::WatchFrom { .. } => "watch",
        }
    }

    /// Records that a list with this resource version is complete.
    pub(super) fn listed(&mut self, resource_version: &str) {
        *self = Self::WatchFrom {
            resource_version: resource_version.to_owned(),
            failures: 0,
            protocol_errors: 0,
        };
    }

    /// Records that a watch has sent everything up to `version`. Ignores a version from which no
    /// watch can resume: an object that cannot be decoded may have none.
    pub(super) fn advance(&mut self, version: &str) {
        if let Self::WatchFrom {
            resource_version,
            failures,
            ..
        } = self
            && is_resumable(version)
        {
            version.clone_into(resource_version);
            *failures = 0;
        }
    }

    /// Returns the resource version from which a watch resumes; `None` for a WatchList.
    pub(super) fn resume_from(&self) -> Option<&str> {
        match self {
            Self::WatchFrom {
                resource_version, ..
            } => Some(resource_version),
            // Never a `List`: the end of a list made it a `WatchFrom`.
            Self::WatchList { .. } | Self::List { .. } => None,
        }
    }

    /// Changes to the request that follows `error`. Returns the delay before it.
    pub(super) fn failed(&mut self, error: &ApiError) -> RetryDelay {
        match self {
            Self::WatchList { .. } if error.falls_back_to_list_at_once() => {
                *self = Self::List { failures: 0 };
                return RetryDelay::None;
            }
            // An intermediary may abort every WatchList, and then only a LIST works. After a delay,
            // since the server may just have been restarted.
            Self::WatchList { .. } if matches!(error, ApiError::BodyAborted(_)) => {
                *self = Self::List { failures: 0 };
            }
            Self::WatchList { failures } => {
                if error.counts_toward_max_failures() && count_failure(failures) {
                    *self = Self::List { failures: 0 };
                }
            }
            Self::List { failures } => {
                // A busy server counts as well: a WatchList costs it less than a LIST.
                if !matches!(error, ApiError::Connection(_)) && count_failure(failures) {
                    *self = Self::new();
                }
            }
            Self::WatchFrom { .. } if matches!(error, ApiError::Expired { .. }) => {
                *self = Self::new();
                return RetryDelay::ShortOnce;
            }
            Self::WatchFrom {
                failures,
                protocol_errors,
                ..
            } => {
                let count = match error {
                    ApiError::ProtocolError(_) => protocol_errors,
                    _ => failures,
                };
                if error.counts_toward_max_failures() && count_failure(count) {
                    *self = Self::new();
                }
            }
        }
        RetryDelay::Backoff
    }
}

/// Reports whether a watch can resume from `version` without missing an event. A watch from `0`
/// begins with the state that the server has cached, without events for deleted objects.
pub(super) fn is_resumable(version: &str) -> bool {
    !matches!(version, "" | "0")
}

/// Counts a failure. Reports whether [`MAX_FAILURES`] is reached.
fn count_failure(count: &mut u8) -> bool {
    *count = count.saturating_add(1);
    *count >= MAX_FAILURES
}

/// Minimum delay after a first failure, as in client-go.
const MIN_DELAY: Duration = Duration::from_millis(800);

/// Maximum delay, jitter included. client-go has the same maximum without jitter, which adds up to
/// 30 s more.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Delay without jitter, which may double it.
const DELAY: DoublingDelay = DoublingDelay {
    first: MIN_DELAY,
    longest: Duration::from_secs(15),
};

/// Time without a failure that resets the backoff, counted from the first success (a complete list
/// or an accepted watch). Not less than the maximum delay, so that a server which fails again after
/// just this time gets no more requests than one that always fails.
const BACKOFF_RESET: Duration = MAX_DELAY;

/// Failures since the backoff was reset, and the delays that follow from them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RetryBackoff {
    failures: u32,
    has_used_short_delay: bool,
    /// Time of the first success since the last failure.
    working_since: Option<Instant>,
}

impl RetryBackoff {
    /// Records that a list is complete, or that the server has accepted a watch that resumes.
    pub(super) fn succeeded(&mut self, now: Instant) {
        self.working_since.get_or_insert(now);
    }

    /// Counts a failure. Returns the delay, which is doubled each time. `jitter`, from 0 to 1,
    /// extends it to up to twice the time, so that nodes which failed together do not retry
    /// together.
    pub(super) fn failed(&mut self, delay: RetryDelay, now: Instant, jitter: f64) -> Duration {
        let worked = self.working_since.take();
        if worked.is_some_and(|since| now.saturating_duration_since(since) >= BACKOFF_RESET) {
            *self = Self::default();
        }
        let short_delays = u32::from(self.has_used_short_delay);
        self.failures = self.failures.saturating_add(1);
        if delay == RetryDelay::ShortOnce && !self.has_used_short_delay {
            self.has_used_short_delay = true;
            return with_jitter(MIN_DELAY, jitter);
        }
        with_jitter(DELAY.after(self.failures - short_delays), jitter)
    }
}

/// Returns the delay after a watch that sent events and soon ended. That is not a failure, but the
/// next watch must not follow without a pause.
pub(super) fn reopen_delay(jitter: f64) -> Duration {
    with_jitter(MIN_DELAY, jitter)
}

fn with_jitter(delay: Duration, jitter: f64) -> Duration {
    delay.mul_f64(1.0 + jitter.clamp(0.0, 1.0))
}
