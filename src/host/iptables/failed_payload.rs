//! Writes the input of the last failed restore of each family to a file, for support.
//!
//! A payload contains names and addresses of Services, and no secrets.

use std::collections::VecDeque;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::outcome::RestoreError;
use crate::net::IpFamily;

/// Bytes kept of the beginning of a payload, and of its end. A partial payload has a few kilobytes;
/// a full one of 10,000 Services has 17 MB.
const HALF: usize = 512 << 10;

/// Writer of the files of failed payloads.
#[derive(Debug, Clone)]
pub struct FailedPayloads {
    /// Directory of the files, which has to exist.
    pub folder: PathBuf,
    /// Called if a file cannot be written.
    pub unwritable: fn(&Path, &std::io::Error),
}

impl FailedPayloads {
    /// Replaces the file of the family with this payload, and the error of its restore in comments
    /// above. The time of the failure is that of the file.
    pub(super) fn write(
        &self,
        family: IpFamily,
        payload: &TruncatedText,
        took: Duration,
        failure: &RestoreError,
    ) {
        let path = self.folder.join(match family {
            IpFamily::V4 => "failed-ipv4.payload",
            IpFamily::V6 => "failed-ipv6.payload",
        });
        if let Err(cause) = replace(&self.folder, &path, &describe(payload, took, failure)) {
            (self.unwritable)(&path, &cause);
        }
    }
}

/// Replaces the file atomically. Only its owner can read it.
fn replace(folder: &Path, path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text)?;
    file.persist(path)?;
    Ok(())
}

/// Returns the payload, with the result of its restore in comments above.
fn describe(payload: &TruncatedText, took: Duration, failure: &RestoreError) -> Vec<u8> {
    let (milliseconds, bytes) = (took.as_millis(), payload.length);
    let mut text = format!("# after {milliseconds} ms, {bytes} bytes of input\n").into_bytes();
    for line in failure.to_string().lines() {
        text.extend(format!("# failed: {line}\n").into_bytes());
    }
    text.extend(&payload.head);
    let kept = payload.head.len() + payload.tail.len();
    if let Some(cut) = payload.length.checked_sub(kept).filter(|cut| *cut > 0) {
        text.extend(format!("\n# truncated: {cut} bytes omitted here\n").into_bytes());
    }
    text.extend(&payload.tail);
    text
}

/// Beginning and end of a text.
#[derive(Debug, Default)]
pub(super) struct TruncatedText {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Length of the whole text.
    length: usize,
}

impl TruncatedText {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.length = self.length.saturating_add(bytes.len());
        let free = HALF.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(free);
        self.head.extend_from_slice(head);
        // Bytes that would be dropped at once are skipped.
        let skipped = rest.len().saturating_sub(HALF);
        self.tail.extend(rest.iter().skip(skipped));
        let surplus = self.tail.len().saturating_sub(HALF);
        self.tail.drain(..surplus);
    }
}

#[cfg(test)]
#[path = "tests/failed_payload.rs"]
mod tests;
