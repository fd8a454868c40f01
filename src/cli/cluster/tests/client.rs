//! Thousands of nodes, of which some are slow.

use std::cell::Cell;

use tokio::time::{Instant, sleep};

use super::*;

#[tokio::test(start_paused = true)]
async fn thousands_are_asked_a_few_at_a_time() {
    let nodes: Vec<u64> = (0..5_000).collect();
    let (current, most) = (Cell::new(0), Cell::new(0));
    let started = Instant::now();
    let ask = async |node: &u64| {
        current.set(current.get() + 1);
        most.set(most.get().max(current.get()));
        // Each hundredth does not answer.
        let time = if node.is_multiple_of(100) {
            NODE_TIMEOUT
        } else {
            Duration::from_millis(100)
        };
        sleep(time).await;
        current.set(current.get() - 1);
        node * 2
    };
    let mut answers = Vec::new();
    for_each_bounded(&nodes, ask, |node, answer| answers.push((*node, answer))).await;
    assert_eq!(most.get(), MAX_CONCURRENT);
    // The slow ones do not delay their successors.
    assert_eq!(answers.first(), Some(&(1, 2)));
    answers.sort_unstable();
    let expected = nodes.iter().map(|node| (*node, node * 2));
    assert!(answers.into_iter().eq(expected));
    // 50 that take 10 s, and 4,950 that take 0.1 s, by 16 at a time: 62 s, and the last one alone.
    assert!(
        started.elapsed() < Duration::from_secs(72),
        "{:?}",
        started.elapsed()
    );
}
