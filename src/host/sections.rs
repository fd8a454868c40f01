//! Splits a payload into its tables.
//!
//! Legacy takes the xtables lock for each table of a payload anew, and does not say for which one
//! the wait timed out. Given one table at a time, it is known which are in the kernel.

use crate::rules::Payload;

/// Most text that is handed on at once.
const PIECE: usize = 64 * 1024;

/// A payload, read table by table.
pub(super) struct Sections<'p> {
    payload: &'p mut dyn Payload,
    /// Text that was read and not handed on yet, from `at`.
    ahead: Vec<u8>,
    at: usize,
    /// Lines handed on.
    lines: usize,
}

impl<'p> Sections<'p> {
    pub(super) fn new(payload: &'p mut dyn Payload) -> Self {
        Self {
            payload,
            ahead: Vec::new(),
            at: 0,
            lines: 0,
        }
    }

    /// Lines of the payload that were handed on so far.
    pub(super) const fn lines(&self) -> usize {
        self.lines
    }

    /// The next table, which ends with its `COMMIT`; `None` behind the last one.
    pub(super) fn next_section<'s>(&'s mut self) -> Option<Section<'s, 'p>> {
        self.has_more().then_some(Section {
            all: self,
            is_over: false,
        })
    }

    fn has_more(&mut self) -> bool {
        while self.at == self.ahead.len() {
            self.ahead.clear();
            self.at = 0;
            if !self.payload.write_next(&mut self.ahead) {
                return false;
            }
        }
        true
    }
}

/// One table of a payload.
pub(super) struct Section<'s, 'p> {
    all: &'s mut Sections<'p>,
    is_over: bool,
}

impl Payload for Section<'_, '_> {
    fn write_next(&mut self, buf: &mut Vec<u8>) -> bool {
        if self.is_over || !self.all.has_more() {
            return false;
        }
        let rest = self.all.ahead.get(self.all.at..).unwrap_or_default();
        let mut taken = 0;
        for line in rest.split_inclusive(|byte| *byte == b'\n') {
            taken += line.len();
            self.all.lines += 1;
            self.is_over = line == b"COMMIT\n";
            if self.is_over || taken >= PIECE {
                break;
            }
        }
        buf.extend_from_slice(rest.get(..taken).unwrap_or_default());
        self.all.at += taken;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Text;

    /// Pieces of a payload.
    struct Pieces<'p>(std::slice::Iter<'p, &'p str>);

    impl Payload for Pieces<'_> {
        fn write_next(&mut self, buf: &mut Vec<u8>) -> bool {
            let piece = self.0.next();
            piece
                .inspect(|piece| buf.extend(piece.as_bytes()))
                .is_some()
        }
    }

    /// Each table, and how many lines there were until its end.
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
    fn a_payload_is_split_behind_each_commit() {
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
        // The program says what is wrong with it.
        assert_eq!(
            split(&mut Text::new("*nat\nX")),
            [("*nat\nX".to_owned(), 2)]
        );
    }

    #[test]
    fn large_tables_stay_whole() {
        let line = format!("-A X -j {}\n", "Y".repeat(80));
        let table = format!("*nat\n{}COMMIT\n", line.repeat(10_000));
        let found = split(&mut Text::new(table.repeat(2)));
        assert_eq!(found, [(table.clone(), 10_002), (table, 20_004)]);
    }
}
