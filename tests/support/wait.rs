//! Waiting for something to become true, with the reason it did not.

use std::time::{Duration, Instant};

/// How often a condition is looked at: short beside a restore, long beside the cost of looking.
const POLL: Duration = Duration::from_millis(30);

/// How long a program may take to come up, or a change to reach the kernel, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks until the answer is `Ok`, and panics with the last error when `patience` is over.
#[track_caller]
pub fn eventually<T>(patience: Duration, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match ask() {
            Ok(value) => return value,
            Err(why) => assert!(start.elapsed() < patience, "not within {patience:?}: {why}"),
        }
        std::thread::sleep(POLL);
    }
}

/// Turns a condition into what [`eventually`] wants.
pub fn ensure(condition: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(otherwise()) }
}
