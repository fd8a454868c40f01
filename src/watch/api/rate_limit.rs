//! Limits the rate of requests, and holds back all others until the server has responded to the
//! first one of the client.
//!
//! The limit does not depend on the responses, so that no server can provoke a request storm.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/util/flowcontrol/throttle.go, `NewTokenBucketRateLimiter` (v1.37)
//!
//! Differs from upstream: there watches are not limited, so a server that ends each watch at once
//! gets thousands of requests per second.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, MutexGuard};
use tokio::time::{Instant, sleep, timeout};

/// Values of `--kube-api-qps` and `--kube-api-burst`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Requests per second, in the long run. Zero or less: no limit.
    pub qps: f32,
    /// Requests that may be sent at once after a while without any.
    pub burst: u32,
}

impl Default for RateLimit {
    /// Returns the defaults of client-go.
    fn default() -> Self {
        Self {
            qps: 5.0,
            burst: 10,
        }
    }
}

/// Token bucket: each request takes a token, or waits for one in order.
#[derive(Debug)]
pub(super) struct RateLimiter(Option<Mutex<Bucket>>);

#[derive(Debug)]
struct Bucket {
    qps: f64,
    burst: f64,
    /// Negative: number of requests that wait.
    tokens: f64,
    /// Time of the last refill.
    filled: Option<Instant>,
}

impl RateLimiter {
    pub(super) fn new(limit: RateLimit) -> Self {
        let (qps, burst) = (f64::from(limit.qps), f64::from(limit.burst.max(1)));
        // NaN means no limit, as in client-go.
        Self((qps > 0.0).then(|| {
            Mutex::new(Bucket {
                qps,
                burst,
                tokens: burst,
                filled: None,
            })
        }))
    }

    /// Waits until a request may be sent.
    pub(super) async fn wait(&self) {
        let Some(bucket) = &self.0 else {
            return;
        };
        let wait = bucket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(Instant::now());
        if !wait.is_zero() {
            sleep(wait).await;
        }
    }
}

impl Bucket {
    fn take(&mut self, now: Instant) -> Duration {
        let filled = self.filled.replace(now).unwrap_or(now);
        let passed = now.saturating_duration_since(filled).as_secs_f64();
        self.tokens = (self.tokens + passed * self.qps).min(self.burst) - 1.0;
        let missing = (-self.tokens).max(0.0) / self.qps;
        Duration::try_from_secs_f64(missing).unwrap_or(Duration::MAX)
    }
}

/// Maximum wait for the first response: the server may be slow at the first request.
const MAX_GATE_WAIT: Duration = Duration::from_secs(10);

/// Holds back other requests until the server has responded to the first one.
///
/// The HTTP library knows only after a TLS handshake whether a server supports HTTP/2. Requests
/// that begin at the same moment would each make a handshake, and all connections but one would be
/// dropped: a high load on the server when all nodes start at once. The gate stays open afterwards:
/// jitter spreads the requests after an outage.
#[derive(Debug, Default)]
pub(super) struct FirstRequestGate {
    has_response: AsyncMutex<bool>,
}

/// Guard of a request that may be sent. Holds the gate closed if this is the first request; if it
/// is dropped without a response, the next request is the first.
pub(super) struct FirstRequestGuard<'a>(Option<MutexGuard<'a, bool>>);

impl FirstRequestGate {
    /// Waits until a request may be sent.
    pub(super) async fn enter(&self) -> FirstRequestGuard<'_> {
        let first = timeout(MAX_GATE_WAIT, self.has_response.lock()).await;
        FirstRequestGuard(first.ok().filter(|has_response| !**has_response))
    }
}

impl FirstRequestGuard<'_> {
    /// Records that the server has responded, with any status: there is a connection to share.
    pub(super) fn responded(self) {
        if let Some(mut has_response) = self.0 {
            *has_response = true;
        }
    }
}

#[cfg(test)]
#[path = "tests/rate_limit.rs"]
mod tests;
