//! Tests that need processes: shell scripts in place of iptables, and the real binaries.
//!
//! They run one at a time: a script that is still open for writing in a process just forked by
//! another test cannot be run.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

mod backend;
pub(super) mod conntrack_bytes;
mod hostile;
mod kernel;
mod scripts;
mod unprintable;

static TURN: Mutex<()> = Mutex::new(());

pub(super) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The turn of a test, and a folder for its scripts.
pub(super) fn turn_with_folder() -> (MutexGuard<'static, ()>, TempDir) {
    (turn(), tempfile::tempdir().unwrap())
}

#[track_caller]
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}
