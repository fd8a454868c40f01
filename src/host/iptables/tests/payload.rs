//! Tests of `payload`.

use super::super::interface::{RestoreError, excerpt, is_untouched};
use super::super::process::ProgramExit;
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
    let (failed, killed) = (ProgramExit::Exited(1), ProgramExit::Signaled(9));
    for (exit, text, is_whole) in [
        (failed, TEXT, false),
        (failed, &TEXT[..21], true),
        (killed, TEXT, false),
    ] {
        let stderr = String::new();
        let error = RestoreError::Failed { exit, stderr };
        let found = is_untouched(&error, &mut Text::new(text));
        assert_eq!(found, is_whole, "{error:?}");
    }
}
