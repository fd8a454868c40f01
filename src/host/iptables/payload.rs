//! Reads payloads while they are restored: splits them into tables, notes the tables of a restore,
//! and renders a failed one for support.

use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use crate::rules::{Payload, Table};

/// Maximum bytes of a piece, except for the end of its last line.
const PIECE: usize = 64 * 1024;

/// Line that ends a table, and applies it.
pub(super) const COMMIT: &[u8] = b"COMMIT\n";

/// Splits a payload into its tables.
///
/// Legacy takes the xtables lock once per table, and does not report for which table the wait timed
/// out. With one table per run it is known which tables were applied.
pub(super) struct Sections<'p> {
    payload: &'p mut dyn Payload,
    /// Text that was read; everything before `at` has been passed on.
    buffered: Vec<u8>,
    at: usize,
    /// Number of lines passed on.
    lines: usize,
}

impl<'p> Sections<'p> {
    pub(super) fn new(payload: &'p mut dyn Payload) -> Self {
        Self {
            payload,
            buffered: Vec::new(),
            at: 0,
            lines: 0,
        }
    }

    /// Returns the number of lines of the payload passed on so far.
    pub(super) const fn lines(&self) -> usize {
        self.lines
    }

    /// Returns the next table, which ends with its `COMMIT`; `None` after the last one.
    pub(super) fn next_section<'s>(&'s mut self) -> Option<Section<'s, 'p>> {
        self.has_more().then_some(Section {
            all: self,
            is_complete: false,
        })
    }

    fn has_more(&mut self) -> bool {
        while self.at == self.buffered.len() {
            self.buffered.clear();
            self.at = 0;
            if !self.payload.write_next(&mut self.buffered) {
                return false;
            }
        }
        true
    }
}

/// One table of a payload, a payload itself.
pub(super) struct Section<'s, 'p> {
    all: &'s mut Sections<'p>,
    is_complete: bool,
}

impl Payload for Section<'_, '_> {
    fn write_next(&mut self, buf: &mut Vec<u8>) -> bool {
        if self.is_complete || !self.all.has_more() {
            return false;
        }
        let rest = self.all.buffered.get(self.all.at..).unwrap_or_default();
        let mut taken = 0;
        for line in rest.split_inclusive(|byte| *byte == b'\n') {
            taken += line.len();
            self.all.lines += 1;
            self.is_complete = line == COMMIT;
            if self.is_complete || taken >= PIECE {
                break;
            }
        }
        buf.extend_from_slice(rest.get(..taken).unwrap_or_default());
        self.all.at += taken;
        true
    }
}

/// A payload of which a function gets each piece while it is read.
pub(super) struct CopiedPayload<'a, F> {
    payload: &'a mut dyn Payload,
    copy: F,
}

impl<'a, F: FnMut(&[u8])> CopiedPayload<'a, F> {
    pub(super) fn new(payload: &'a mut dyn Payload, copy: F) -> Self {
        Self { payload, copy }
    }
}

impl<F: FnMut(&[u8])> Payload for CopiedPayload<'_, F> {
    fn write_next(&mut self, buf: &mut Vec<u8>) -> bool {
        let start = buf.len();
        let is_more = self.payload.write_next(buf);
        (self.copy)(buf.get(start..).unwrap_or_default());
        is_more
    }
}

/// Returns the names of the tables that begin in a piece of a payload. Pieces are whole lines.
pub(super) fn tables(piece: &[u8]) -> impl Iterator<Item = Table> {
    let lines = piece.split(|byte| *byte == b'\n');
    let names = lines.filter_map(|line| line.strip_prefix(b"*"));
    names.filter_map(|name| Table::from_name(str::from_utf8(name).ok()?))
}

/// Bytes kept of the beginning of a payload, and of its end. A partial payload has a few kilobytes;
/// a full one of 10,000 Services has 17 MB.
const HALF: usize = 512 << 10;

/// Receiver of the texts of failed payloads. It is called during a sync, so it must not wait for a
/// disk.
#[derive(Clone)]
pub struct FailedPayloads(pub Rc<dyn Fn(Vec<u8>)>);

impl fmt::Debug for FailedPayloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FailedPayloads")
    }
}

/// Returns the payload, with the result of its restore in comments above. It contains names and
/// addresses of Services, and no secrets.
pub(super) fn describe(
    payload: &TruncatedText,
    took: Duration,
    failure: &impl fmt::Display,
) -> Vec<u8> {
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

#[derive(Debug, Default)]
pub(super) struct TruncatedText {
    head: Vec<u8>,
    tail: VecDeque<u8>,
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
mod failed_payload_tests;

#[cfg(test)]
#[path = "tests/payload.rs"]
mod tests;
