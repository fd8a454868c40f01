//! Runtime in which commands wait for programs and servers.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Returns a runtime of this thread alone.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
