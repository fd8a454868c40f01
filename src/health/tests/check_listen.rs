//! Tests of `check_listen`.

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
    retry.failed(start + FIRST_RETRY / 2);
    assert_eq!(retry, before);
}
