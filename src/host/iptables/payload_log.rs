//! Keeps the payloads that were last applied and last failed, for support.
//!
//! A payload contains names and addresses of Services, and no secrets.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::outcome::RestoreError;
use crate::net::IpFamily;
use crate::rules::Payload;

/// Bytes kept of the beginning of a payload, and of its end. A partial payload has a few kilobytes;
/// a full one of 10,000 Services has 17 MB.
const HALF: usize = 512 << 10;

/// Retention of payloads that were applied, in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepApplied {
    /// The last one of each family is kept.
    Last,
    /// None is kept.
    No,
}

/// Callbacks of a [`PayloadLog`].
#[derive(Debug, Clone, Copy)]
pub struct PayloadHooks {
    /// Returns the wall clock time.
    pub clock: fn() -> SystemTime,
    /// Called if the file of a failed payload cannot be written.
    pub unwritable: fn(&Path, &std::io::Error),
}

/// Last payloads of both families. Clones share them.
#[derive(Debug, Clone)]
pub struct PayloadLog(Arc<PayloadLogState>);

#[derive(Debug)]
struct PayloadLogState {
    keep_applied: KeepApplied,
    state_dir: Option<PathBuf>,
    hooks: PayloadHooks,
    records: Mutex<[Records; IpFamily::ALL.len()]>,
}

#[derive(Debug, Default)]
struct Records {
    applied: Option<String>,
    failed: Option<String>,
}

impl PayloadLog {
    /// Returns an empty log, which writes failed payloads to files in `state_dir`, if given. The
    /// directory has to exist.
    pub fn new(keep_applied: KeepApplied, state_dir: Option<PathBuf>, hooks: PayloadHooks) -> Self {
        Self(Arc::new(PayloadLogState {
            keep_applied,
            state_dir,
            hooks,
            records: Mutex::default(),
        }))
    }

    /// Returns the last applied payloads of both families, with time and duration in comments.
    pub fn applied(&self) -> String {
        self.page("applied", |records| records.applied.as_deref())
    }

    /// Returns the last failed payloads of both families, with time, duration and error in
    /// comments.
    pub fn failed(&self) -> String {
        self.page("failed", |records| records.failed.as_deref())
    }

    fn page(&self, result: &str, of: impl Fn(&Records) -> Option<&str>) -> String {
        let records = self.records();
        let texts = IpFamily::ALL.into_iter().zip(records.iter());
        let texts = texts.map(|(family, records)| match of(records) {
            Some(text) => text.to_owned(),
            None => format!("# {family}: no {result} restore since the start\n"),
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Records a finished restore.
    pub(super) fn record(
        &self,
        family: IpFamily,
        payload: &TruncatedText,
        took: Duration,
        failure: Option<&RestoreError>,
    ) {
        if failure.is_none() && self.0.keep_applied == KeepApplied::No {
            return;
        }
        let text = describe(family, payload, (self.0.hooks.clock)(), took, failure);
        if failure.is_some()
            && let Some(folder) = &self.0.state_dir
        {
            let path = folder.join(file_name(family));
            if let Err(cause) = replace(folder, &path, &text) {
                (self.0.hooks.unwritable)(&path, &cause);
            }
        }
        let mut records = self.records();
        for (of, records) in IpFamily::ALL.into_iter().zip(records.iter_mut()) {
            if of == family && failure.is_some() {
                records.failed = Some(text.clone());
            } else if of == family {
                records.applied = Some(text.clone());
            }
        }
    }

    /// Returns the records, also after a panic of another thread: texts are replaced as a whole.
    fn records(&self) -> MutexGuard<'_, [Records; IpFamily::ALL.len()]> {
        let records = self.0.records.lock();
        records.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the name of the file of the last failed payload.
fn file_name(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "failed-ipv4.payload",
        IpFamily::V6 => "failed-ipv6.payload",
    }
}

/// Replaces the file atomically. Only its owner can read it.
fn replace(folder: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// Returns the payload, with the result of its restore in comments above.
fn describe(
    family: IpFamily,
    payload: &TruncatedText,
    at: SystemTime,
    took: Duration,
    failure: Option<&RestoreError>,
) -> String {
    let time = jiff::Timestamp::try_from(at).map_or_else(|_| String::new(), |at| at.to_string());
    let (milliseconds, bytes) = (took.as_millis(), payload.length);
    let mut text =
        format!("# {family}: ended at {time} after {milliseconds} ms, {bytes} bytes of input\n");
    if let Some(failure) = failure {
        for line in failure.to_string().lines() {
            // Writing to a String does not fail.
            let _ = writeln!(text, "# failed: {line}");
        }
    }
    text += &String::from_utf8_lossy(&payload.head);
    let kept = payload.head.len() + payload.tail.len();
    if let Some(cut) = payload.length.checked_sub(kept).filter(|cut| *cut > 0) {
        let _ = writeln!(text, "\n# truncated: {cut} bytes omitted here");
    }
    let (front, back) = payload.tail.as_slices();
    text += &String::from_utf8_lossy(&[front, back].concat());
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
    fn push(&mut self, bytes: &[u8]) {
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

/// A payload that is copied while it is read.
pub(super) struct CopiedPayload<'a> {
    payload: &'a mut dyn Payload,
    pub(super) text: TruncatedText,
}

impl<'a> CopiedPayload<'a> {
    pub(super) fn new(payload: &'a mut dyn Payload) -> Self {
        Self {
            payload,
            text: TruncatedText::default(),
        }
    }
}

impl Payload for CopiedPayload<'_> {
    fn write_next(&mut self, buf: &mut Vec<u8>) -> bool {
        let start = buf.len();
        let is_more = self.payload.write_next(buf);
        self.text.push(buf.get(start..).unwrap_or_default());
        is_more
    }
}

#[cfg(test)]
#[path = "tests/payload_log.rs"]
mod tests;
