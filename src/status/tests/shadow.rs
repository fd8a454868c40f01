//! Tests of the histogram of lags.

use std::time::Duration;

use super::LagHistogram;

fn histogram(millis: impl IntoIterator<Item = u64>) -> LagHistogram {
    let mut lags = LagHistogram::default();
    for millis in millis {
        lags.add(Duration::from_millis(millis));
    }
    lags
}

#[test]
fn percentiles_are_at_most_a_tenth_too_long() {
    let lags = histogram(1..=1000);
    for (percent, exact) in [(1, 0.010), (50, 0.500), (99, 0.990), (100, 1.0)] {
        let found = lags.percentile(percent).unwrap();
        assert!(
            (exact..=exact * 1.1 + 0.001).contains(&found),
            "{percent}: {found}"
        );
    }
    assert!((lags.max_seconds - 1.0).abs() < 1e-9);
    assert_eq!(histogram([]).percentile(50), None);
    assert_eq!(histogram([0]).percentile(50), Some(0.0));
}

#[test]
fn merged_histograms_are_those_of_all_durations() {
    let mut merged = histogram(1..=500);
    merged.merge(&histogram(501..=1000));
    let all = histogram(1..=1000);
    assert_eq!(merged.buckets, all.buckets);
    assert_eq!(merged.count, 1000);
    assert!((merged.max_seconds - all.max_seconds).abs() < 1e-9);
    assert!((merged.sum_seconds - all.sum_seconds).abs() < 1e-6);
}
