//! A refused line with its neighbours.
//!
//! Apart because a payload is never held whole: the lines are found by making it once more.

use std::fmt;

use crate::rules::Payload;

/// Lines shown either side, as upstream shows: enough to see the chain a rule belongs to.
const NEIGHBORS: usize = 3;

/// The longest line shown whole; the kernel's own limits keep rules far below it.
const LONGEST: usize = 1024;

/// A few lines of a payload around one of them. It prints one line per line, a marker before the
/// one in question.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Excerpt {
    /// The number of the line in question, counted from 1.
    pub line: usize,
    /// Lines with their numbers, in order. Empty if the payload has no such line.
    pub lines: Vec<(usize, String)>,
}

/// Line number `line` of the payload with three lines either side.
///
/// The payload is read from where it is, so it has to be a fresh one.
pub fn excerpt(payload: &mut dyn Payload, line: usize) -> Excerpt {
    let mut search = Search {
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

struct Search {
    wanted: std::ops::RangeInclusive<usize>,
    number: usize,
    found: Vec<(usize, String)>,
}

impl Search {
    /// Reads whole lines, the last of which may lack its end.
    fn read(&mut self, piece: &[u8]) {
        let mut start = 0;
        let ends = memchr::memchr_iter(b'\n', piece).chain([piece.len()]);
        for end in ends {
            let line = piece.get(start..end).unwrap_or_default();
            if start >= piece.len() || self.number > *self.wanted.end() {
                return;
            }
            if self.wanted.contains(&self.number) {
                let shown = line.get(..LONGEST).unwrap_or(line);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten lines in pieces of the given number of lines.
    struct Pieces {
        next: usize,
        lines: usize,
    }

    impl Payload for Pieces {
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
    fn check(line: usize, expected: &str) {
        for lines in [1, 2, 3, 10] {
            let shown = excerpt(&mut Pieces { next: 1, lines }, line).to_string();
            assert_eq!(shown, expected, "line {line} in pieces of {lines}");
        }
    }

    #[test]
    fn neighbors_are_shown() {
        check(
            5,
            "  2 | line 2\n  3 | line 3\n  4 | line 4\n> 5 | line 5\n  6 | line 6\n  7 | line 7\n  8 | line 8",
        );
        check(1, "> 1 | line 1\n  2 | line 2\n  3 | line 3\n  4 | line 4");
        check(
            10,
            "   7 | line 7\n   8 | line 8\n   9 | line 9\n> 10 | line 10",
        );
        check(99, "");
    }
}
