//! Durations and sizes for human readers.

use std::time::Duration;

use jiff::Timestamp;

/// Returns the time between two times.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    duration(Duration::try_from(now.duration_since(then)).unwrap_or_default())
}

/// Returns a duration in its two largest units.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (large, small) = match seconds {
        0..60 => return format!("{seconds} s"),
        60..3600 => return format!("{} min", seconds / 60),
        3600..86_400 => ((3600, "h"), (60, "min")),
        _ => ((86_400, "d"), (3600, "h")),
    };
    let text = format!("{} {}", seconds / large.0, large.1);
    match seconds % large.0 / small.0 {
        0 => text,
        rest => format!("{text} {rest} {}", small.1),
    }
}

/// Returns a number of milliseconds with about three digits.
pub(crate) fn milliseconds(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.1} ms"),
        value if value < 1000.0 => format!("{value:.0} ms"),
        value => format!("{:.1} s", value / 1000.0),
    }
}

/// Returns a number of bytes with its unit.
#[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1000 => format!("{count} B"),
        1000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}
