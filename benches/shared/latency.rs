//! How long each change takes until its rules are in the kernel.
//!
//! Apart because the programs tell only sums: attributing these to changes is a computation of its
//! own.

use std::thread;
use std::time::{Duration, Instant};

use super::load::Load;
use super::scrape::Sample;
use super::subject::Running;
use crate::support::api::Api;

/// What is still on its way after the last change arrives within this.
const SETTLE: Duration = Duration::from_secs(6);
/// How exactly a sync's end is seen, if several fall between two scrapes.
const SCRAPE_EVERY: Duration = Duration::from_millis(25);

/// Moves endpoints at a steady rate; how long each change took, in seconds, in ascending order.
///
/// Both programs add every change to one histogram when its sync ends, oldest first. So the growth
/// between two scrapes says which changes were in a sync, and the growth of the sum when it ended.
pub fn latencies(
    running: &Running<'_>,
    load: &mut Load,
    api: &Api,
    rate: u32,
    phase: Duration,
) -> Vec<f64> {
    let (asked, samples) = watched(running, || load.churn(api, rate, phase));
    attribute(&asked, &samples)
}

/// Does some work, and reads the metrics until what it caused has arrived.
pub fn watched<T: Send>(
    running: &Running<'_>,
    work: impl FnOnce() -> T + Send,
) -> (T, Vec<Sample>) {
    let mut samples = vec![running.sample()];
    thread::scope(|scope| {
        let work = scope.spawn(work);
        let mut ends = None;
        while ends.is_none_or(|ends| Instant::now() < ends) {
            thread::sleep(SCRAPE_EVERY);
            samples.push(running.sample());
            if ends.is_none() && work.is_finished() {
                ends = Some(Instant::now() + SETTLE);
            }
        }
        (work.join().unwrap(), samples)
    })
}

/// Returns how long each change took, in ascending order.
pub fn attribute(asked: &[Instant], samples: &[Sample]) -> Vec<f64> {
    let mut latencies = Vec::new();
    let mut waiting = asked.iter();
    for pair in samples.windows(2) {
        let grown = pair[1].programming - pair[0].programming;
        // A count of changes: small and whole.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "see above"
        )]
        let batch: Vec<_> = waiting.by_ref().take(grown.count as usize).collect();
        let Some(&&last) = batch.last() else {
            continue;
        };
        // The sum is that of `end - asked` over the batch.
        let before_last: f64 = batch.iter().map(|&&at| (last - at).as_secs_f64()).sum();
        let end = (grown.sum - before_last) / batch.len() as f64;
        latencies.extend(batch.iter().map(|&&at| end + (last - at).as_secs_f64()));
    }
    latencies.sort_by(f64::total_cmp);
    latencies
}

/// Returns a percentile of sorted values: the lowest one that this share of them does not exceed.
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}
