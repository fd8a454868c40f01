//! Limit of the requests that a server gets in a second, whatever it answers.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/util/flowcontrol/throttle.go, `NewTokenBucketRateLimiter` (v1.36)
//!
//! Differs from upstream: there watches are not limited, and a server that ends each at once is
//! asked thousands of times in a second.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// `--kube-api-qps` and `--kube-api-burst`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Requests in a second, in the long run. Zero or less: no limit.
    pub qps: f32,
    /// Requests that may be sent at once after a while without any.
    pub burst: u32,
}

impl Default for RateLimit {
    /// Client-go's.
    fn default() -> Self {
        Self {
            qps: 5.0,
            burst: 10,
        }
    }
}

/// A token bucket: each request takes a token, or waits for one in turn.
#[derive(Debug)]
pub(super) struct RateLimiter(Option<Mutex<Bucket>>);

#[derive(Debug)]
struct Bucket {
    qps: f64,
    burst: f64,
    /// Negative: so many requests are waiting.
    tokens: f64,
    filled: Option<Instant>,
}

impl RateLimiter {
    pub(super) fn new(limit: RateLimit) -> Self {
        let (qps, burst) = (f64::from(limit.qps), f64::from(limit.burst.max(1)));
        // Not a number is no limit, as it is for client-go.
        Self((qps > 0.0).then(|| {
            Mutex::new(Bucket {
                qps,
                burst,
                tokens: burst,
                filled: None,
            })
        }))
    }

    /// Waits until a request may be sent. Returns how long.
    pub(super) async fn wait(&self) -> Duration {
        let Some(bucket) = &self.0 else {
            return Duration::ZERO;
        };
        let wait = bucket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(Instant::now());
        if !wait.is_zero() {
            sleep(wait).await;
        }
        wait
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

#[cfg(test)]
mod tests {
    use super::*;

    /// When each of so many requests that are wanted at once may be sent, in milliseconds.
    fn sent(qps: f32, burst: u32, requests: usize) -> Vec<u128> {
        let limiter = RateLimiter::new(RateLimit { qps, burst });
        let now = Instant::now();
        let take = || match &limiter.0 {
            Some(bucket) => bucket.lock().unwrap().take(now).as_millis(),
            None => 0,
        };
        (0..requests).map(|_| take()).collect()
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_in_turn() {
        assert_eq!(sent(5.0, 3, 6), [0, 0, 0, 200, 400, 600]);
        assert_eq!(sent(0.5, 1, 3), [0, 2000, 4000]);
    }

    #[test]
    fn no_rate_is_no_limit() {
        for qps in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(sent(qps, 10, 1000), [0; 1000], "{qps}");
        }
    }

    #[test]
    fn tokens_come_back_with_time_up_to_the_burst() {
        let mut now = Instant::now();
        let limiter = RateLimiter::new(RateLimit::default());
        let mut bucket = limiter.0.unwrap().into_inner().unwrap();
        for _ in 0..10 {
            assert_eq!(bucket.take(now), Duration::ZERO);
        }
        assert_ne!(bucket.take(now), Duration::ZERO);
        now += Duration::from_secs(3600);
        for _ in 0..10 {
            assert_eq!(bucket.take(now), Duration::ZERO);
        }
        assert_ne!(bucket.take(now), Duration::ZERO);
    }

    #[test]
    fn a_tiny_rate_waits_for_ever_and_does_not_overflow() {
        assert_eq!(sent(f32::MIN_POSITIVE, 1, 2)[1], Duration::MAX.as_millis());
    }
}
