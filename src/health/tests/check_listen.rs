//! Tests of retry delays.

use super::*;

fn failed_once(start: Instant) -> ListenRetry {
    let mut retry = ListenRetry {
        failures: 0,
        due: start,
    };
    retry.failed(start);
    retry
}

#[tokio::test(start_paused = true)]
async fn waits_double_up_to_a_minute() {
    let start = Instant::now();
    let mut retry = failed_once(start);
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
    let mut retry = failed_once(start);
    let before = retry;
    retry.failed(start + RETRY_DELAY.first / 2);
    assert_eq!(retry, before);
}
