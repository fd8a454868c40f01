//! Log lines, in memory.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::subscriber::{DefaultGuard, set_default};

#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Warnings that this thread logs until the guard is dropped.
pub(crate) fn warnings() -> (Lines, DefaultGuard) {
    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN);
    let log = log.with_writer(move || writer.clone()).finish();
    (lines, set_default(log))
}
