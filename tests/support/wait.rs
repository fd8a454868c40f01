//! Waiting for something to become true, with the reason it did not.

use std::time::{Duration, Instant};

/// Shortest pause between two looks at a condition: short beside a restore.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// Longest pause. A look often starts a program, and other tests need the processor meanwhile.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// How long a program may take to come up, or a change to reach the kernel, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks until the answer is `Ok`, and panics with the last error when `patience` is over. Asks the
/// less often, the longer it takes.
#[track_caller]
pub fn eventually<T>(patience: Duration, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match ask() {
            Ok(value) => return value,
            Err(why) => assert!(start.elapsed() < patience, "not within {patience:?}: {why}"),
        }
        std::thread::sleep((start.elapsed() / 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
    }
}

/// Turns a condition into what [`eventually`] wants.
pub fn ensure(condition: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(otherwise()) }
}
