//! YAML of manifests and of the configuration file, as kubectl reads it: divides a text into
//! documents, and reads each into the types of JSON. Plain scalars follow the rules of YAML 1.1, so
//! that `yes` is a boolean and `0120` is octal.
//!
//! `serde-saphyr` is not used to read them. As lenient as its options permit, version 2.0 still
//! rejects quoted text whose continuation lines are not indented, and tabs in `[]`, and keeps the
//! keys `yes` and `n`, which kubectl turns into `true` and `false`. A test fails when that has
//! changed. The YAML parser used here rejects such lines and tabs as well: the line is indented,
//! and the document is read again.
//!
//! # Invariants
//!
//! The last one of equal keys wins, also one of a later `<<`.
//!
//! The nodes that anchors and aliases repeat are limited, by their number and depth.
//!
//! # Source
//!
//! Upstream: k8s.io/apimachinery/pkg/util/yaml/decoder.go, `YAMLReader`, `YAMLOrJSONDecoder`
//! (v1.37)
//!
//! Upstream: go.yaml.in/yaml/v2, decode.go, resolve.go, `resolve`; sigs.k8s.io/yaml, yaml.go,
//! `convertToJSONableObject` (v1.6.0)

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{self, Write as _};

use granit_parser::{
    Event, Options, Parser, ScalarStyle, ScanError, StrInput, StructureStyle, Tag,
};
use serde_json::{Map, Number, Value};

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

/// Syntax error of YAML or JSON.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    /// Line in the file, counted from 1.
    pub(crate) line: Option<u64>,
    pub(crate) reason: String,
    /// More indentation of the line repairs the text, and does not change its meaning.
    lacks_indentation: bool,
}

impl SyntaxError {
    pub(crate) fn new(line: Option<u64>, reason: impl Into<String>) -> Self {
        Self {
            line,
            reason: reason.into(),
            lacks_indentation: false,
        }
    }
}

impl From<serde_json::Error> for SyntaxError {
    fn from(error: serde_json::Error) -> Self {
        let line = u64::try_from(error.line()).ok().filter(|line| *line > 0);
        let text = error.to_string();
        // The position is a field of its own.
        let reason = text
            .rsplit_once(" at line ")
            .map_or(&*text, |(reason, _)| reason);
        Self::new(line, reason)
    }
}

/// Key that a mapping has twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepeatedKey {
    /// Line of the second one in the file, counted from 1.
    pub(crate) line: u64,
    pub(crate) key: String,
}

/// Document as it was read.
#[derive(Debug)]
pub(crate) struct YamlDocument {
    pub(crate) value: Value,
    /// First key that is repeated, not counting mappings with `<<`.
    pub(crate) repeated: Option<RepeatedKey>,
    /// Lines of nodes by their paths, as in `spec.ports[0].port`: of keys in mappings, and the
    /// first ones of items and of the document, whose path is empty. Empty if not wanted.
    pub(crate) lines: HashMap<String, u64>,
}

/// Reader of the first document of a text that is not empty.
struct YamlReader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// Number of lines in the file before the text.
    lines_before: u64,
    anchors: HashMap<usize, Value>,
    /// Number of nodes that were copied for anchors or by aliases.
    copied_nodes: usize,
    /// Styles of the collections that enclose the next node.
    open: Vec<StructureStyle>,
    /// Line of the last event in the file, counted from 1.
    line: u64,
    repeated: Option<RepeatedKey>,
    /// `None`: not recorded, which takes time and memory.
    lines: Option<HashMap<String, u64>>,
    /// Path of the next node, if lines are recorded.
    path: String,
}

impl<'t> YamlReader<'t> {
    fn new(text: &'t str, lines_before: u64, records_lines: bool) -> Self {
        let mut options = Options::default();
        // Bug of the parser: with these events, a block after some hundred comments is an error.
        options.set_emit_comments(false);
        Self {
            parser: Parser::new_from_str_with_options(text, options),
            lines_before,
            anchors: HashMap::new(),
            copied_nodes: 0,
            open: Vec::new(),
            line: 0,
            repeated: None,
            lines: records_lines.then(HashMap::new),
            path: String::new(),
        }
    }

    /// Reads the document; `None` if all are empty.
    fn read(&mut self) -> Result<Option<YamlDocument>, SyntaxError> {
        loop {
            match self.next()? {
                Event::StreamEnd => return Ok(None),
                Event::DocumentStart(..) => {
                    self.anchors.clear();
                    let event = self.next()?;
                    self.enter(format_args!(""));
                    let value = self.node(event)?;
                    if !value.is_null() {
                        return Ok(Some(YamlDocument {
                            value,
                            repeated: self.repeated.take(),
                            lines: self.lines.take().unwrap_or_default(),
                        }));
                    }
                }
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Result<Event<'t>, SyntaxError> {
        let (event, span) = match self.parser.next_event() {
            Some(parsed) => parsed.map_err(|error| self.syntax_error(&error))?,
            None => return Ok(Event::StreamEnd),
        };
        self.line = self.lines_before + span.start.line() as u64;
        match &event {
            Event::SequenceStart(style, ..) | Event::MappingStart(style, ..) => {
                self.open.push(*style);
            }
            Event::SequenceEnd | Event::MappingEnd => drop(self.open.pop()),
            _ => {}
        }
        Ok(event)
    }

    /// Returns a syntax error. kubectl's library accepts unindented continuation lines of quoted
    /// text, and tabs inside `[]` and `{}`. This parser (YAML 1.2) rejects both, so such errors are
    /// marked for repair by `DocumentText::read`. `TabInIndentation` is reported only within
    /// quotes.
    fn syntax_error(&self, error: &ScanError) -> SyntaxError {
        use granit_parser::ErrorKind::{
            InvalidQuotedScalarIndent, TabInBlockIndentation, TabInIndentation,
        };

        let is_in_brackets = self.open.last() == Some(&StructureStyle::Flow);
        SyntaxError {
            line: Some(self.lines_before + error.marker().line() as u64),
            reason: error.kind().to_string(),
            lacks_indentation: match error.kind() {
                InvalidQuotedScalarIndent | TabInIndentation => true,
                TabInBlockIndentation => is_in_brackets,
                _ => false,
            },
        }
    }

    /// Returns an error at the last event.
    fn error(&self, reason: &str) -> SyntaxError {
        SyntaxError::new(Some(self.line), reason)
    }

    /// Reads the node that begins with an event.
    fn node(&mut self, event: Event<'t>) -> Result<Value, SyntaxError> {
        self.ensure_depth(self.open.len())?;
        let (value, anchor) = match event {
            Event::Alias(anchor) => return self.repeat(anchor),
            Event::Scalar(text, style, anchor, tag) => {
                (scalar(tag.as_deref(), text, style), anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.sequence()?.into(), anchor),
            Event::MappingStart(_, anchor, _) => (self.mapping()?.into(), anchor),
            // The parser begins each node with one of the above.
            _ => return Err(self.error("expected a node")),
        };
        // 0 stands for no anchor.
        if anchor != 0 {
            // Counted, because anchors within anchors take memory for each level.
            self.count_copies(nodes(&value))?;
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn sequence(&mut self) -> Result<Vec<Value>, SyntaxError> {
        let mut items = Vec::new();
        loop {
            let event = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(items);
            }
            let outer = self.enter(format_args!("[{}]", items.len()));
            items.push(self.node(event)?);
            self.path.truncate(outer);
        }
    }

    fn mapping(&mut self) -> Result<Map<String, Value>, SyntaxError> {
        let (mut entries, mut has_merged) = (Map::new(), false);
        loop {
            let event = self.next()?;
            match &event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<" => {
                    self.merge(&mut entries)?;
                    has_merged = true;
                    continue;
                }
                _ => {}
            }
            let line = self.line;
            let key = match self.node(event)? {
                Value::String(key) => key,
                Value::Array(_) | Value::Object(_) => {
                    return Err(self.error("a key must be a scalar"));
                }
                other => other.to_string(),
            };
            let dot = if self.path.is_empty() { "" } else { "." };
            let outer = self.enter(format_args!("{dot}{key}"));
            let event = self.next()?;
            let value = self.node(event)?;
            self.path.truncate(outer);
            if !has_merged && entries.contains_key(&key) && self.repeated.is_none() {
                self.repeated = Some(RepeatedKey {
                    line,
                    key: key.clone(),
                });
            }
            entries.insert(key, value);
        }
    }

    /// Adds the entries of the value of `<<`: of a mapping, or of a sequence of mappings, of which
    /// the first one with a key wins.
    fn merge(&mut self, entries: &mut Map<String, Value>) -> Result<(), SyntaxError> {
        let event = self.next()?;
        let mappings = match self.node(event)? {
            Value::Array(items) => items.into_iter().rev().collect(),
            other => vec![other],
        };
        for mapping in mappings {
            let Value::Object(merged) = mapping else {
                return Err(self.error("`<<` requires a mapping"));
            };
            entries.extend(merged);
        }
        Ok(())
    }

    /// Adds a segment to the path, and records the line of the last event for it. Returns the
    /// length of the path before.
    fn enter(&mut self, segment: fmt::Arguments<'_>) -> usize {
        let outer = self.path.len();
        if let Some(lines) = &mut self.lines {
            // Writing to a string cannot fail.
            let _ = self.path.write_fmt(segment);
            lines.insert(self.path.clone(), self.line);
        }
        outer
    }

    /// Returns the node that an alias repeats.
    fn repeat(&mut self, anchor: usize) -> Result<Value, SyntaxError> {
        let Some(value) = self.anchors.get(&anchor) else {
            return Err(self.error("an anchor contains itself"));
        };
        let (nodes, depth) = (nodes(value), depth(value));
        self.count_copies(nodes)?;
        // Each alias may add levels to a node that another anchor stores.
        self.ensure_depth(self.open.len() + depth - 1)?;
        Ok(self.anchors.get(&anchor).cloned().unwrap_or_default())
    }

    fn count_copies(&mut self, nodes: usize) -> Result<(), SyntaxError> {
        self.copied_nodes += nodes;
        if self.copied_nodes > MAX_COPIED_NODES {
            return Err(self.error("anchors and aliases repeat too many nodes"));
        }
        Ok(())
    }

    /// Fails below [`MAX_DEPTH`] levels.
    fn ensure_depth(&self, levels: usize) -> Result<(), SyntaxError> {
        if levels > MAX_DEPTH {
            return Err(self.error("nested deeper than 128 levels"));
        }
        Ok(())
    }
}

/// Resolves a scalar: text if it is quoted without a tag, or has another tag than those below.
fn scalar(tag: Option<&Tag>, text: Cow<'_, str>, style: ScalarStyle) -> Value {
    let is_resolved = match tag {
        None => style == ScalarStyle::Plain,
        Some(tag) => matches!(tag.core_suffix(), Some("bool" | "int" | "float" | "null")),
    };
    if is_resolved {
        plain(text.into_owned())
    } else {
        Value::String(text.into_owned())
    }
}

/// Maximum copied nodes in one document. Aliases to nodes with aliases can turn a few lines into
/// gigabytes, and each anchor stores a copy of its node with everything in that.
const MAX_COPIED_NODES: usize = 1_000_000;

/// Returns the number of nodes in a value. A long text counts for several, as it takes more memory.
fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(entries) => {
            let keys: usize = entries.keys().map(|key| key.len() / NODE_BYTES).sum();
            keys + entries.values().map(nodes).sum::<usize>()
        }
        Value::String(text) => text.len() / NODE_BYTES,
        _ => 0,
    }
}

/// Bytes of a text that count as one more node: about the memory of a node.
const NODE_BYTES: usize = 64;

/// Maximum depth of nested nodes, as in `serde_json`: each level takes stack.
const MAX_DEPTH: usize = 128;

/// Returns the number of levels of a value: 1 without nested values.
fn depth(value: &Value) -> usize {
    let nested = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(entries) => entries.values().map(depth).max(),
        _ => None,
    };
    1 + nested.unwrap_or_default()
}

/// Resolves a plain scalar without a tag, or any with the tag of a type other than text.
fn plain(text: String) -> Value {
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return true.into();
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return false.into();
        }
        _ => {}
    }
    let number = match text.as_bytes().first() {
        Some(b'0'..=b'9' | b'+' | b'-') => {
            let digits = text.replace('_', "");
            // From -2^63 to 2^64 - 1; others are floats.
            let integer = integer(&digits).and_then(Number::from_i128);
            integer.or_else(|| float(&digits))
        }
        Some(b'.') => float(&text),
        _ => None,
    };
    number.map_or(Value::String(text), Value::Number)
}

/// Parses an integer as Go does: `0x` is hexadecimal, `0o` or only `0` is octal, `0b` is binary.
pub(crate) fn integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, text.get(1..)?),
        b'+' => (1, text.get(1..)?),
        _ => (1, text),
    };
    let lower = digits.to_ascii_lowercase();
    let prefixes = [("0x", 16), ("0o", 8), ("0b", 2), ("0", 8)];
    let number = prefixes.into_iter().find_map(|(prefix, radix)| {
        let rest = lower.strip_prefix(prefix)?;
        (!rest.is_empty()).then_some((rest, radix))
    });
    let (digits, radix) = number.unwrap_or((&lower, 10));
    // `from_str_radix` takes a second sign.
    let is_signed = !digits.starts_with(|first: char| first.is_ascii_alphanumeric());
    let value = i128::from_str_radix(digits, radix).ok();
    value.filter(|_| !is_signed).map(|value| sign * value)
}

/// Parses a decimal number. Without a fractional part it is an integer, as Go writes it in JSON.
/// Infinity and NaN do not exist in JSON and stay text.
fn float(text: &str) -> Option<Number> {
    /// Maximum up to which a float represents every integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;

    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_decimal = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && unsigned.contains(|one: char| one.is_ascii_digit());
    let value: f64 = is_decimal.then(|| text.parse().ok())??;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an integer within the exact range of a float"
        )]
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}

#[cfg(test)]
#[path = "tests/yaml.rs"]
mod tests;
