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
pub const SETTLE: Duration = Duration::from_secs(6);
/// How exactly a sync's end is seen, if several fall between two scrapes.
pub const SCRAPE_EVERY: Duration = Duration::from_millis(25);

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
    let first = running.sample();
    let (asked, samples) = thread::scope(|scope| {
        let churn = scope.spawn(|| load.churn(api, rate, phase));
        let mut samples = vec![first];
        let mut ends = None;
        while ends.is_none_or(|ends| Instant::now() < ends) {
            thread::sleep(SCRAPE_EVERY);
            samples.push(running.sample());
            if ends.is_none() && churn.is_finished() {
                ends = Some(Instant::now() + SETTLE);
            }
        }
        (churn.join().unwrap(), samples)
    });
    attribute(&asked, &samples)
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

/// The value that `share` of the sorted values do not exceed.
pub fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between nought and the length"
    )]
    let index = (last as f64 * share).round() as usize;
    sorted.get(index).copied()
}
