//! Failures that repeat.

#![expect(clippy::disallowed_methods, reason = "any start of a clock will do")]

use std::time::{Duration, Instant};

use super::{BURST, Repeats, WINDOW, with_count};

fn repeats(now: Instant) -> Repeats {
    Repeats {
        since: now,
        written: 0,
        left_out: 0,
    }
}

#[test]
fn a_lasting_failure_is_written_once_a_window_with_the_number_left_out() {
    let start = Instant::now();
    let mut failure = repeats(start);
    let second = Duration::from_secs(1);
    let written: Vec<(u32, u64)> = (0..180)
        .filter_map(|at| Some((at, failure.admit(start + second * at)?)))
        .collect();
    assert_eq!(written, [(0, 0), (1, 0), (2, 0), (60, 57), (120, 59)]);
}

#[test]
fn a_failure_after_a_pause_is_a_new_one() {
    let start = Instant::now();
    let mut failure = repeats(start);
    assert_eq!(failure.admit(start), Some(0));
    let later = start + 2 * WINDOW;
    for _ in 0..BURST {
        assert_eq!(failure.admit(later), Some(0));
    }
    assert_eq!(failure.admit(later), None);
}

#[test]
fn the_number_is_a_field_in_every_format() {
    assert_eq!(with_count("W a b=1\n", 7), "W a b=1 left_out=7\n");
    assert_eq!(with_count("{\"a\":1}\n", 7), "{\"a\":1,\"left_out\":7}\n");
}
