//! The end of what a program says.
//!
//! Apart because a program may say megabytes, and the reason it failed comes last.

use tokio::io::{AsyncRead, AsyncReadExt};

/// How much of the end of what a program complained of is kept. A restore can warn on every line
/// of a payload of millions.
const KEPT: usize = 16 * 1024;

/// The end of a text of any length.
#[derive(Default)]
pub(super) struct Tail {
    kept: Vec<u8>,
    skipped: bool,
}

impl Tail {
    /// Reads until the other end is closed.
    pub(super) async fn fill(&mut self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        while matches!(from.read_buf(&mut self.kept).await, Ok(1..)) {
            if self.kept.len() > 2 * KEPT {
                self.shorten();
            }
        }
        if self.kept.len() > KEPT {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        self.kept.drain(..self.kept.len() - KEPT);
        self.skipped = true;
    }

    /// What was kept, marked if it is not all.
    pub(super) fn into_text(self) -> String {
        let text = String::from_utf8_lossy(&self.kept).into_owned();
        if self.skipped {
            format!("[...] {text}")
        } else {
            text
        }
    }
}
