//! The clocks of the host, for the modules that measure and show times. To all others, the time is
//! an argument.

#![expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the clocks"
)]

use std::sync::LazyLock;
use std::time::{Instant, SystemTime};

use jiff::Timestamp;

pub(crate) fn instant() -> Instant {
    Instant::now()
}

pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// Returns the start of the process, to within the time until this is first called. A later change
/// of the clock does not look like a restart.
pub(crate) fn process_start() -> SystemTime {
    static START: LazyLock<SystemTime> = LazyLock::new(wall);
    *START
}

/// Returns the present time as pages and documents have it.
pub(crate) fn now() -> Timestamp {
    timestamp(wall())
}

/// Returns a time as pages and documents have it.
pub(crate) fn timestamp(at: SystemTime) -> Timestamp {
    Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH)
}
