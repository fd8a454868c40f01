//! Reads payloads by table and by line: splits them into tables, notes the tables of a restore,
//! shows the lines around a rejected one, and tells how much of a failed payload the kernel has.

use std::fmt;

use super::outcome::RestoreError;
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
        RestoreError::Rejected { line, .. } => !commits_before(*line, again),
        // The program reports no error once the last table is committed.
        RestoreError::Failed { status: 1.., .. } => !commits_several_tables(again),
        error => error.committed_if_retriable() == Some(0),
    }
}

/// Reports whether the payload commits more than one table.
fn commits_several_tables(payload: &mut dyn Payload) -> bool {
    let (mut text, mut commits) = (Vec::new(), 0);
    while commits < 2 && payload.write_next(&mut text) {
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        commits += lines.filter(|line| *line == COMMIT).count();
        text.clear();
    }
    commits > 1
}

/// Reports whether a line before this one, counted from 1, ends a table.
fn commits_before(line: usize, payload: &mut dyn Payload) -> bool {
    let (mut text, mut before) = (Vec::new(), 1);
    while before < line && payload.write_next(&mut text) {
        for written in text.split_inclusive(|byte| *byte == b'\n') {
            if before < line && written == COMMIT {
                return true;
            }
            before += 1;
        }
        text.clear();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Text;

    /// A payload with given pieces.
    struct Pieces<'p>(std::slice::Iter<'p, &'p str>);

    impl Payload for Pieces<'_> {
        fn write_next(&mut self, buf: &mut Vec<u8>) -> bool {
            let piece = self.0.next();
            piece
                .inspect(|piece| buf.extend(piece.as_bytes()))
                .is_some()
        }
    }

    /// Returns each table with the number of lines until its end.
    fn split(payload: &mut dyn Payload) -> Vec<(String, usize)> {
        let mut sections = Sections::new(payload);
        let mut found = Vec::new();
        while let Some(mut section) = sections.next_section() {
            let mut text = Vec::new();
            while section.write_next(&mut text) {}
            found.push((String::from_utf8(text).unwrap(), sections.lines()));
        }
        found
    }

    #[test]
    fn a_payload_is_split_after_each_commit() {
        let filter = "*filter\n-A X -m comment --comment \"COMMIT\" -j Y\nCOMMIT\n";
        let nat = "*nat\n:X - [0:0]\nCOMMIT\n";
        let expected = [(filter.to_owned(), 3), (nat.to_owned(), 6)];
        assert_eq!(split(&mut Text::new([filter, nat].concat())), expected);
        let pieces = [
            "*filter\n",
            "",
            "-A X -m comment --comment \"COMMIT\" -j Y\n",
        ];
        let pieces = [&pieces[..], &["COMMIT\n", "*nat\n", ":X - [0:0]\nCOMMIT\n"]].concat();
        assert_eq!(split(&mut Pieces(pieces.iter())), expected);
        assert_eq!(split(&mut Text::new("")), []);
        // The program reports the missing COMMIT.
        assert_eq!(
            split(&mut Text::new("*nat\nX")),
            [("*nat\nX".to_owned(), 2)]
        );
    }

    #[test]
    fn large_tables_are_not_split() {
        let line = format!("-A X -j {}\n", "Y".repeat(80));
        let table = format!("*nat\n{}COMMIT\n", line.repeat(10_000));
        let found = split(&mut Text::new(table.repeat(2)));
        assert_eq!(found, [(table.clone(), 10_002), (table, 20_004)]);
    }

    /// Ten lines, in pieces of `lines` lines.
    struct TenLines {
        next: usize,
        lines: usize,
    }

    impl Payload for TenLines {
        fn write_next(&mut self, buf: &mut Vec<u8>) -> bool {
            if self.next > 10 {
                return false;
            }
            for number in self.next..(self.next + self.lines).min(11) {
                buf.extend_from_slice(format!("line {number}\n").as_bytes());
            }
            self.next += self.lines;
            true
        }
    }

    #[track_caller]
    fn check_excerpt(line: usize, expected: &str) {
        for lines in [1, 2, 3, 10] {
            let shown = excerpt(&mut TenLines { next: 1, lines }, line).to_string();
            assert_eq!(shown, expected, "line {line} in pieces of {lines}");
        }
    }

    #[test]
    fn an_excerpt_marks_the_line_and_shows_three_around_it() {
        check_excerpt(
            5,
            "  2 | line 2\n  3 | line 3\n  4 | line 4\n> 5 | line 5\n  6 | line 6\n  7 | line 7\n  8 | line 8",
        );
        check_excerpt(1, "> 1 | line 1\n  2 | line 2\n  3 | line 3\n  4 | line 4");
        check_excerpt(
            10,
            "   7 | line 7\n   8 | line 8\n   9 | line 9\n> 10 | line 10",
        );
        check_excerpt(99, "");
    }

    const TEXT: &[u8] = b"*filter\n-A X\nCOMMIT\n*nat\n-A COMMIT\nCOMMIT\n*mangle\nCOMMIT\n";

    #[test]
    fn a_payload_rejected_in_its_first_table_changed_nothing() {
        let is_untouched_by = |line| {
            let reason = String::new();
            let error = RestoreError::Rejected { line, reason };
            is_untouched(&error, &mut Text::new(TEXT))
        };
        // Legacy reports the line of the COMMIT when the kernel rejects a table.
        let expected = [true, true, true, true, false, false, false];
        assert_eq!([0, 1, 2, 3, 4, 6, 99].map(is_untouched_by), expected);
        for (committed, is_whole) in [(0, true), (1, false)] {
            let waited = std::time::Duration::ZERO;
            let locked = RestoreError::Locked { waited, committed };
            assert_eq!(is_untouched(&locked, &mut Text::new(TEXT)), is_whole);
        }
        for (text, is_whole) in [(TEXT, false), (&TEXT[..21], true)] {
            let stderr = String::new();
            let failed = RestoreError::Failed { status: 1, stderr };
            assert_eq!(is_untouched(&failed, &mut Text::new(text)), is_whole);
        }
        let stderr = String::new();
        let killed = RestoreError::Killed { signal: 9, stderr };
        assert!(!is_untouched(&killed, &mut Text::new(TEXT)));
    }
}
