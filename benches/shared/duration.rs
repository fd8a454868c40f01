//! Durations on the command lines of benches.

use std::time::Duration;

use jiff::SignedDuration;

/// As `30m` or `90s`.
pub fn duration(text: &str) -> Result<Duration, jiff::Error> {
    Duration::try_from(text.parse::<SignedDuration>()?)
}
