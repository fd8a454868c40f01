//! Decides after a failure which request comes next, and after which delay.
//!
//! Clock and jitter are arguments of the decisions, so that tests cover them: they are what
//! thousands of nodes do to a server that is just coming back.
//!
//! # Invariants
//!
//! - Delays grow until the server has worked for [`HEALTHY`], whatever it responds in between: a
//!   list, an event or a bookmark alone shortens none, or a server that serves each list and
//!   rejects each watch would have to list everything without end.
//! - The one exception is an expired resource version: the first since the server last worked may
//!   be followed by a short delay.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/cache/reflector.go, `NewReflectorWithOptions` (v1.36)
//!
//! Differs from upstream: there delays start over two minutes after the last failure.

use std::time::Duration;

use tokio::time::Instant;

use super::error::ApiError;
use super::list::Paging;
use super::request::WatchStart;

/// Failures after which another request is tried: a list instead of a watch that resumes, pages
/// instead of a streaming list, and a streaming list again instead of pages. Without a limit, one
/// event that the server cannot deliver would block its kind for ever; with a smaller one, a
/// server that is restarted twice would have to list everything.
const MOST_ERRORS: u8 = 3;

/// Beginning of the next request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Position {
    /// Nothing is known: a streaming list brings the whole state as events.
    Streaming {
        /// Number of failed requests.
        errors: u8,
    },
    /// Nothing is known and streaming has failed: a list. Later lists are streamed again, since
    /// servers are upgraded.
    Listing {
        /// Objects per request.
        paging: Paging,
        /// Number of failed requests.
        errors: u8,
    },
    /// Everything up to this resource version is known: a watch resumes there.
    At {
        /// Opaque text, not a number.
        resource_version: String,
        /// Number of failed requests since the last event.
        errors: u8,
        /// Messages that could not be decoded since the last list. Events do not reset it: each of
        /// these messages may have been an event that is lost.
        malformed: u8,
    },
}

/// Delay before the next request after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryDelay {
    /// None, as the next request is another one: the server works.
    None,
    /// As short as the first one, if the previous one was not: the server works, and after a
    /// restart it sends this error to every node, when their delays have grown long.
    Short,
    /// Doubled each time.
    Growing,
}

impl Position {
    /// Returns the position before the first list.
    pub(super) fn new() -> Self {
        Self::Streaming { errors: 0 }
    }

    /// Records that everything up to `resource_version` is listed.
    pub(super) fn listed(&mut self, resource_version: &str) {
        *self = Self::At {
            resource_version: resource_version.to_owned(),
            errors: 0,
            malformed: 0,
        };
    }

    /// Records that a watch brought everything up to `version`, if a watch can resume from it: an
    /// object that cannot be decoded may have none.
    pub(super) fn advance(&mut self, version: &str) {
        if let Self::At {
            resource_version,
            errors,
            ..
        } = self
            && is_resumable(version)
        {
            version.clone_into(resource_version);
            *errors = 0;
        }
    }

    /// Returns the beginning of a watch from this position.
    pub(super) fn start(&self) -> WatchStart<'_> {
        match self {
            Self::At {
                resource_version, ..
            } => WatchStart::After(resource_version),
            Self::Streaming { .. } | Self::Listing { .. } => WatchStart::Everything,
        }
    }

    /// Moves to the next request after `error`.
    pub(super) fn failed(&mut self, error: &ApiError) -> RetryDelay {
        match self {
            Self::Streaming { .. } if error.is_about_the_request() => {
                *self = Self::pages();
                return RetryDelay::None;
            }
            // An intermediary may cut off every stream; but the server may have been restarted, so
            // not at once.
            Self::Streaming { .. } if matches!(error, ApiError::Broken(_)) => *self = Self::pages(),
            Self::Streaming { errors } => {
                if error.is_lasting() && is_exhausted(errors) {
                    *self = Self::pages();
                }
            }
            Self::Listing { paging, errors } => {
                if matches!(error, ApiError::Expired { .. }) {
                    *paging = Paging::Whole;
                }
                // Also if the server is busy: a streaming list costs it less.
                if !matches!(error, ApiError::Connection(_)) && is_exhausted(errors) {
                    *self = Self::new();
                }
            }
            Self::At { .. } if matches!(error, ApiError::Expired { .. }) => {
                *self = Self::new();
                return RetryDelay::Short;
            }
            Self::At {
                errors, malformed, ..
            } => {
                let count = match error {
                    ApiError::Malformed(_) => malformed,
                    _ => errors,
                };
                if error.is_lasting() && is_exhausted(count) {
                    *self = Self::new();
                }
            }
        }
        RetryDelay::Growing
    }

    fn pages() -> Self {
        Self::Listing {
            paging: Paging::Pages,
            errors: 0,
        }
    }
}

/// Reports whether a watch can resume from `version` without a gap. From `0` it begins with the
/// state that the server has cached, without events for deleted objects.
pub(super) fn is_resumable(version: &str) -> bool {
    !matches!(version, "" | "0")
}

/// Counts a failure. Reports whether it was the last one allowed.
fn is_exhausted(count: &mut u8) -> bool {
    *count = count.saturating_add(1);
    *count >= MOST_ERRORS
}

/// Shortest delay after a first failure, as in client-go.
const FIRST: Duration = Duration::from_millis(800);

/// Longest delay, jitter included. As in client-go, where jitter can double it.
const LONGEST: Duration = Duration::from_secs(30);

/// Time that watches must work before delays start over. As long as the longest delay: a server
/// that works for just as long between failures gets no more requests than one that never works.
const HEALTHY: Duration = LONGEST;

/// Failures since the server last worked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RetryBackoff {
    failures: u32,
    has_retried_soon: bool,
    /// Time since which lists and watches have worked without a failure.
    working_since: Option<Instant>,
}

impl RetryBackoff {
    /// Records that a list is complete, or that the server has accepted a watch that resumes.
    pub(super) fn working(&mut self, now: Instant) {
        self.working_since.get_or_insert(now);
    }

    /// Counts a failure. Returns the delay: doubled each time, and extended by `jitter` (0 to 1)
    /// to up to twice itself, so that nodes which failed together do not retry together.
    pub(super) fn failed(&mut self, delay: RetryDelay, now: Instant, jitter: f64) -> Duration {
        let worked = self.working_since.take();
        if worked.is_some_and(|since| now.saturating_duration_since(since) >= HEALTHY) {
            *self = Self::default();
        }
        if delay == RetryDelay::Short && !self.has_retried_soon {
            self.has_retried_soon = true;
            return with_jitter(FIRST, jitter);
        }
        let doublings = self.failures.min(10);
        self.failures = self.failures.saturating_add(1);
        with_jitter((FIRST * 2_u32.pow(doublings)).min(LONGEST / 2), jitter)
    }
}

/// Returns the delay before a watch that brought events and ended at once is opened again: not a
/// failure, but the requests must not follow each other without a pause.
pub(super) fn reopen_delay(jitter: f64) -> Duration {
    with_jitter(FIRST, jitter)
}

fn with_jitter(delay: Duration, jitter: f64) -> Duration {
    delay.mul_f64(1.0 + jitter.clamp(0.0, 1.0))
}
