//! Finds the lines of fields in the text of a manifest.
//!
//! Separate from decoding, which does not record lines: the text is read once more, and only if
//! there is a problem to report.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::parse::{FieldPlace, TextFormat};
use super::validation::FieldSegment;
use crate::ingest::yaml::{self, CurrentLine, DocumentText};

/// Returns the line of each field, or of the innermost object around it that is in the text.
pub(super) fn lines(text: &str, format: TextFormat, fields: &[FieldPlace]) -> Vec<Option<u64>> {
    let lines = RefCell::new(vec![None; fields.len()]);
    for (number, mut document) in documents(text, format).enumerate() {
        let wanted = fields.iter().enumerate();
        let wanted = wanted.filter(|(_, field)| field.document == number);
        let wanted: Vec<_> = wanted.map(|(index, field)| (index, &*field.path)).collect();
        if wanted.is_empty() {
            continue;
        }
        let before = document.first_line - 1;
        // JSON with escapes that are invalid in YAML is an error here, and has no lines.
        let _ = document.read(|line| LineSeed {
            wanted: wanted.clone(),
            begins_item: true,
            lines: &lines,
            line,
            before,
        });
    }
    lines.into_inner()
}

/// Returns the texts of all documents, in the order of [`FieldPlace::document`].
fn documents(text: &str, format: TextFormat) -> Box<dyn Iterator<Item = DocumentText<'_>> + '_> {
    match format {
        TextFormat::Yaml => Box::new(yaml::divide(text)),
        TextFormat::Json => Box::new(json_documents(text)),
    }
}

fn json_documents(text: &str) -> impl Iterator<Item = DocumentText<'_>> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    std::iter::from_fn(move || {
        let start = stream.byte_offset();
        stream.next()?.ok()?;
        let (before, rest) = text.split_at_checked(start)?;
        let document = rest.get(..stream.byte_offset() - start)?;
        Some(DocumentText {
            first_line: 1 + memchr::memchr_iter(b'\n', before.as_bytes()).count() as u64,
            text: document.into(),
        })
    })
}

/// Index of a field, and the part of its path below a node.
type WantedField<'a> = (usize, &'a [FieldSegment]);

/// Decoder of a YAML node that notes the lines of the wanted fields in it.
struct LineSeed<'a> {
    wanted: Vec<WantedField<'a>>,
    /// The node is a document or an item of a sequence: its first line is that of the item.
    begins_item: bool,
    /// Lines in the file, by the index of the field.
    lines: &'a RefCell<Vec<Option<u64>>>,
    /// Line within the document.
    line: CurrentLine,
    /// Lines of the file before the document.
    before: u64,
}

impl LineSeed<'_> {
    /// Returns the decoder of a nested node, if wanted fields are in it.
    fn nested(&self, segment: &FieldSegment, begins_item: bool) -> Option<Self> {
        let wanted = self.wanted.iter();
        let wanted = wanted.filter_map(|(index, path)| {
            let (first, rest) = path.split_first()?;
            (first == segment).then_some((*index, rest))
        });
        let nested = Self {
            wanted: wanted.collect(),
            begins_item,
            lines: self.lines,
            line: self.line.clone(),
            before: self.before,
        };
        (!nested.wanted.is_empty()).then_some(nested)
    }

    fn note_line(&self) {
        for (index, _) in &self.wanted {
            if let Some(line) = self.lines.borrow_mut().get_mut(*index) {
                *line = Some(self.line.get() + self.before);
            }
        }
    }

    /// Reports whether a field is below this node, and not the node itself.
    fn is_deeper(&self) -> bool {
        self.wanted.iter().any(|(_, path)| !path.is_empty())
    }
}

impl<'de> DeserializeSeed<'de> for LineSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.is_deeper() {
            return deserializer.deserialize_any(self);
        }
        deserializer.deserialize_ignored_any(IgnoredAny)?;
        if self.begins_item {
            self.note_line();
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for LineSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping or a sequence")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.begins_item {
            self.note_line();
        }
        while let Some(key) = map.next_key::<String>()? {
            if let Some(nested) = self.nested(&FieldSegment::Name(key), false) {
                nested.note_line();
                map.next_value_seed(nested)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        if self.begins_item {
            self.note_line();
        }
        for index in 0.. {
            let is_item = match self.nested(&FieldSegment::Index(index), true) {
                Some(nested) => items.next_element_seed(nested)?.is_some(),
                None => items.next_element::<IgnoredAny>()?.is_some(),
            };
            if !is_item {
                break;
            }
        }
        Ok(())
    }
}
