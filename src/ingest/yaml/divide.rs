//! Divides a text into YAML documents, as kubectl does, and reads each of them.
//!
//! kubectl accepts quoted text whose continuation lines are not indented, but the YAML parser used
//! here does not; nor does it accept tabs in `[]` and `{}` without spaces before them. On such an
//! error, the line is indented and the document is read again.
//!
//! # Source
//!
//! Upstream: k8s.io/apimachinery/pkg/util/yaml/decoder.go, `YAMLReader`, `YAMLOrJSONDecoder`
//! (v1.37)

use std::borrow::Cow;

use super::reader::{SyntaxError, YamlDocument, YamlReader};

/// Maximum bytes that are read to repair one document: for each line that is indented, the whole
/// document, which grows, is read again. Enough for about 500 lines in a file of 20 kB; to read it
/// so often takes a second.
const MAX_REPAIR_BYTES: usize = 20_000_000;

/// Spaces that are added to a line, again if need be: more than most blocks are indented.
const MORE_INDENTATION: &str = "                                                                ";

/// Document of a text, not parsed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DocumentText<'t> {
    /// First line of the document in the file, counted from 1.
    first_line: u64,
    text: Cow<'t, str>,
}

/// Decodes the text of a file: UTF-8, or UTF-16 with a byte order mark, as `>` of PowerShell
/// writes it. `None` if it is neither.
pub(crate) fn decode(text: &[u8]) -> Option<Cow<'_, str>> {
    let utf16 = |to_unit: fn([u8; 2]) -> u16, text: &[u8]| {
        let units = text.chunks_exact(2);
        let units: Vec<u16> = units
            .filter_map(|pair| pair.try_into().ok().map(to_unit))
            .collect();
        String::from_utf16(&units).ok().map(Cow::Owned)
    };
    match text {
        [0xff, 0xfe, text @ ..] => utf16(u16::from_le_bytes, text),
        [0xfe, 0xff, text @ ..] => utf16(u16::from_be_bytes, text),
        text => {
            let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
            std::str::from_utf8(text).ok().map(Cow::Borrowed)
        }
    }
}

/// Divides YAML at lines of `---`, which may end in a comment.
pub(crate) fn divide(text: &str) -> impl Iterator<Item = DocumentText<'_>> {
    let mut rest = Some((1, text));
    std::iter::from_fn(move || {
        let (first_line, text) = rest.take()?;
        let mut end = 0;
        for (line, next_line) in text.split_inclusive('\n').zip(first_line + 1..) {
            if is_separator(line) {
                rest = text.get(end + line.len()..).map(|rest| (next_line, rest));
                break;
            }
            end += line.len();
        }
        let document = text.get(..end).unwrap_or_default();
        Some(DocumentText::new(first_line, document))
    })
}

fn is_separator(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| {
        let rest = rest.trim();
        rest.is_empty() || rest.starts_with('#')
    })
}

impl<'t> DocumentText<'t> {
    /// Returns a document that begins at this line of a file.
    pub(crate) fn new(first_line: u64, text: &'t str) -> Self {
        Self {
            first_line,
            text: Cow::Borrowed(text),
        }
    }

    /// Reads the document; `None` if it is empty.
    ///
    /// Text after the end marker `...` is ignored, as kubectl does.
    pub(crate) fn read(mut self, records_lines: bool) -> Result<Option<YamlDocument>, SyntaxError> {
        let lines_before = self.first_line - 1;
        let mut reread = 0;
        while reread < MAX_REPAIR_BYTES {
            reread += self.text.len();
            match YamlReader::new(&self.text, lines_before, records_lines).read() {
                Err(error) if error.lacks_indentation => self.indent_line(error.line),
                result => return result,
            }
        }
        let reason = "too many lines of quoted text lack indentation";
        Err(SyntaxError::new(None, reason))
    }

    /// Adds spaces at the beginning of a line, which does not change the meaning of quoted text.
    fn indent_line(&mut self, line: Option<u64>) {
        let before = line.unwrap_or(1).saturating_sub(self.first_line);
        let lines = self.text.split_inclusive('\n').zip(0..before);
        let start = lines.map(|(line, _)| line.len()).sum();
        self.text.to_mut().insert_str(start, MORE_INDENTATION);
    }
}

#[cfg(test)]
#[path = "tests/divide.rs"]
mod tests;
