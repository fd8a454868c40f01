//! The payloads that were last applied and last failed, for support.
//!
//! A payload has names and addresses of Services, and no secrets.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::RestoreError;
use crate::net::IpFamily;
use crate::rules::Payload;

/// Bytes that are kept of the beginning of a payload, and as many of its end. A partial payload has
/// a few kilobytes; a full one of 10,000 Services has 17 MB.
const HALF: usize = 512 << 10;

/// Which successful restores are kept in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepApplied {
    /// The last one of each family.
    Last,
    /// None.
    No,
}

/// Ways in which the log meets its environment.
#[derive(Debug, Clone, Copy)]
pub struct PayloadHooks {
    /// The wall clock.
    pub clock: fn() -> SystemTime,
    /// Reports that the file of a failed payload cannot be written.
    pub unwritable: fn(&Path, &std::io::Error),
}

/// The last payloads of both families. Clones share them.
#[derive(Debug, Clone)]
pub struct PayloadLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
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
    /// Writes failed payloads to files in this directory, which has to exist.
    pub fn new(keep_applied: KeepApplied, state_dir: Option<PathBuf>, hooks: PayloadHooks) -> Self {
        Self(Arc::new(Shared {
            keep_applied,
            state_dir,
            hooks,
            records: Mutex::default(),
        }))
    }

    /// The payloads of both families that were applied last, with what is known of them.
    pub fn applied(&self) -> String {
        self.page("applied", |records| records.applied.as_deref())
    }

    /// The payloads of both families that failed last, with what is known of them.
    pub fn failed(&self) -> String {
        self.page("failed", |records| records.failed.as_deref())
    }

    fn page(&self, result: &str, of: impl Fn(&Records) -> Option<&str>) -> String {
        let records = self.records();
        let texts = IpFamily::ALL.into_iter().zip(records.iter());
        let texts = texts.map(|(family, records)| match of(records) {
            Some(text) => text.to_owned(),
            None => format!("# {family}: no restore has {result} since the start\n"),
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Takes in the end of a restore.
    pub(super) fn record(
        &self,
        family: IpFamily,
        payload: &CutText,
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

    /// A panic elsewhere leaves whole texts.
    fn records(&self) -> MutexGuard<'_, [Records; IpFamily::ALL.len()]> {
        let records = self.0.records.lock();
        records.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Name of the file of the last failed payload.
fn file_name(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "failed-ipv4.payload",
        IpFamily::V6 => "failed-ipv6.payload",
    }
}

/// Replaces the file as a whole: a reader never sees half of it. Only its owner can read it.
fn replace(folder: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// The payload behind comments that say what became of it.
fn describe(
    family: IpFamily,
    payload: &CutText,
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
        let _ = writeln!(text, "\n# cut: {cut} bytes are left out here");
    }
    let (front, back) = payload.tail.as_slices();
    text += &String::from_utf8_lossy(&[front, back].concat());
    text
}

/// Text of which only the beginning and the end are kept.
#[derive(Debug, Default)]
pub(super) struct CutText {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Of the whole text.
    length: usize,
}

impl CutText {
    fn push(&mut self, bytes: &[u8]) {
        self.length = self.length.saturating_add(bytes.len());
        let room = HALF.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        // More than the end can hold need not go through it.
        let skipped = rest.len().saturating_sub(HALF);
        self.tail.extend(rest.iter().skip(skipped));
        let surplus = self.tail.len().saturating_sub(HALF);
        self.tail.drain(..surplus);
    }
}

/// A payload that is copied on the way to the program.
pub(super) struct Copied<'a> {
    payload: &'a mut dyn Payload,
    pub(super) text: CutText,
}

impl<'a> Copied<'a> {
    pub(super) fn new(payload: &'a mut dyn Payload) -> Self {
        Self {
            payload,
            text: CutText::default(),
        }
    }
}

impl Payload for Copied<'_> {
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
