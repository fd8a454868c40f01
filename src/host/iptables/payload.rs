//! Reads payloads by table and by line: splits them into tables, notes the tables of a restore,
//! shows the lines around a rejected one, tells how much of a failed payload the kernel has, and
//! renders a failed one for support.

use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use super::interface::RestoreError;
use crate::rules::{Payload, Table};

/// Maximum bytes of a piece, except for the end of its last line.
const PIECE: usize = 64 * 1024;

/// Lines shown before and after, as upstream shows: enough to see the chain of a rule.
const NEIGHBORS: usize = 3;

/// Maximum bytes shown of a line; the kernel's limits keep rules far below it.
const LONGEST_LINE: usize = 1024;

/// Line that ends a table, and applies it.
const COMMIT: &[u8] = b"COMMIT\n";

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

/// Lines of a payload around one of them, which is marked when printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Excerpt {
    /// Number of the marked line, from 1.
    pub line: usize,
    /// Lines with their numbers, in order; empty if the payload has no such line.
    pub lines: Vec<(usize, String)>,
}

/// Returns line number `line` of the payload with three lines before and after.
///
/// The payload has to be unread: payloads are never held as a whole, so the lines are found by
/// rendering the payload once more.
pub(crate) fn excerpt(payload: &mut dyn Payload, line: usize) -> Excerpt {
    let mut search = LineSearch {
        wanted: line.saturating_sub(NEIGHBORS)..=line.saturating_add(NEIGHBORS),
        number: 1,
        found: Vec::new(),
    };
    let mut piece = Vec::new();
    let mut more = true;
    while more && search.number <= *search.wanted.end() {
        piece.clear();
        more = payload.write_next(&mut piece);
        search.read(&piece);
    }
    Excerpt {
        line,
        lines: search.found,
    }
}

struct LineSearch {
    wanted: std::ops::RangeInclusive<usize>,
    number: usize,
    found: Vec<(usize, String)>,
}

impl LineSearch {
    /// Reads whole lines; the last one may lack its line feed.
    fn read(&mut self, piece: &[u8]) {
        let mut start = 0;
        let ends = memchr::memchr_iter(b'\n', piece).chain([piece.len()]);
        for end in ends {
            let line = piece.get(start..end).unwrap_or_default();
            if start >= piece.len() || self.number > *self.wanted.end() {
                return;
            }
            if self.wanted.contains(&self.number) {
                let shown = line.get(..LONGEST_LINE).unwrap_or(line);
                let text = String::from_utf8_lossy(shown).into_owned();
                self.found.push((self.number, text));
            }
            self.number += 1;
            start = end + 1;
        }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .lines
            .last()
            .map_or(0, |(number, _)| number.to_string().len());
        for (index, (number, text)) in self.lines.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            let marker = if *number == self.line { '>' } else { ' ' };
            write!(f, "{end}{marker} {number:width$} | {text}")?;
        }
        Ok(())
    }
}

/// Reports whether a payload that failed has changed nothing in the kernel: each table is applied
/// whole or not at all, one after the other, and none ended before the rejected line. After a
/// program was killed this is unknown.
pub(crate) fn is_untouched(error: &RestoreError, again: &mut dyn Payload) -> bool {
    match error {
        RestoreError::Rejected { line, .. } => commits_before(*line, again) == 0,
        // The program reports no error once the last table is committed.
        RestoreError::Failed { status: 1.., .. } => commits_before(usize::MAX, again) <= 1,
        error => error.committed_if_independent_of_payload() == Some(0),
    }
}

/// Returns the number of tables that end before this line, counted from 1.
fn commits_before(line: usize, payload: &mut dyn Payload) -> usize {
    let (mut text, mut before, mut commits) = (Vec::new(), 1, 0);
    while before < line && payload.write_next(&mut text) {
        for written in text.split_inclusive(|byte| *byte == b'\n') {
            commits += usize::from(before < line && written == COMMIT);
            before += 1;
        }
        text.clear();
    }
    commits
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
pub(super) fn describe(payload: &TruncatedText, took: Duration, failure: &RestoreError) -> Vec<u8> {
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
