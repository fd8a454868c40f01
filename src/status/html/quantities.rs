//! Times, durations and sizes for human readers.

use std::time::Duration;

use jiff::Timestamp;
use maud::{Markup, html};

/// Returns a time as its distance from `now`.
pub(super) fn ago(at: Timestamp, now: Timestamp) -> Markup {
    let age = Duration::try_from(now.duration_since(at)).unwrap_or_default();
    html! { time datetime=(at) { (duration(age)) " ago" } }
}

/// Returns a duration in its largest unit.
pub(super) fn duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// Returns a number of milliseconds with about three digits.
pub(super) fn milliseconds(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.1} ms"),
        value if value < 10_000.0 => format!("{value:.0} ms"),
        value => format!("{:.1} s", value / 1000.0),
    }
}

/// Returns a number of bytes with its unit.
pub(super) fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{} kB", count / 1000),
        _ => format!("{} MB", count / 1_000_000),
    }
}
