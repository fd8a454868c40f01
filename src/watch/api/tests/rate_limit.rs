//! Tests of `rate_limit`.

use super::*;

/// Delays in milliseconds of this many requests that are made at once.
fn delays(qps: f32, burst: u32, requests: usize) -> Vec<u128> {
    let limiter = RateLimiter::new(RateLimit { qps, burst });
    let now = Instant::now();
    let take = || match &limiter.0 {
        Some(bucket) => bucket.lock().take(now).as_millis(),
        None => 0,
    };
    (0..requests).map(|_| take()).collect()
}

#[test]
fn a_burst_is_sent_at_once_and_the_rest_at_the_rate() {
    assert_eq!(delays(5.0, 3, 6), [0, 0, 0, 200, 400, 600]);
    assert_eq!(delays(0.5, 1, 3), [0, 2000, 4000]);
}

#[test]
fn a_rate_of_zero_or_nan_is_unlimited() {
    for qps in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert_eq!(delays(qps, 10, 1000), [0; 1000], "{qps}");
    }
}

#[test]
fn tokens_are_refilled_up_to_the_burst() {
    let mut now = Instant::now();
    let limiter = RateLimiter::new(RateLimit::default());
    let mut bucket = limiter.0.as_ref().unwrap().lock();
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
fn a_tiny_rate_does_not_overflow() {
    assert_eq!(
        delays(f32::MIN_POSITIVE, 1, 2)[1],
        Duration::MAX.as_millis()
    );
}
