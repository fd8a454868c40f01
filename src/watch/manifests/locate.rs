//! Finds the line of a field in the text of a manifest.
//!
//! Separate from decoding, which does not record lines: the text is read once more, and only if
//! there is a problem to report.

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::document_kind::DocumentKind;
use super::parse::{Place, TextFormat, documents};

use super::validation::{FieldPath, FieldSegment};
use crate::ingest::yaml::{CurrentLine, DocumentText};

/// Lines of the fields in one file, read on demand.
pub(super) struct Locator<'t> {
    text: &'t str,
    format: TextFormat,
    /// Texts of all documents; `None` before the first call of [`Self::line`].
    documents: Option<Vec<DocumentText<'t>>>,
    /// Objects of each document that was read.
    objects: HashMap<usize, Vec<LineTree>>,
}

impl<'t> Locator<'t> {
    pub(super) fn new(text: &'t str, format: TextFormat) -> Self {
        Self {
            text,
            format,
            documents: None,
            objects: HashMap::new(),
        }
    }

    /// Returns the line of a field, or of the innermost object around it that is in the text.
    pub(super) fn line(&mut self, place: &Place, path: &FieldPath) -> Option<u64> {
        let (text, format) = (self.text, self.format);
        let divided = || documents(text, format).collect();
        let documents = self.documents.get_or_insert_with(divided);
        let objects = self.objects.entry(place.document);
        let objects = objects.or_insert_with(|| objects_of(documents.get(place.document)));
        objects.get(place.object).map(|object| object.line(path))
    }
}

fn objects_of(document: Option<&DocumentText<'_>>) -> Vec<LineTree> {
    let Some(mut document) = document.cloned() else {
        return Vec::new();
    };
    let before = document.first_line - 1;
    let seed = |line| LineSeed { line, before };
    // JSON with escapes that are invalid in YAML is an error here, and has no lines.
    let tree = document.read(seed).ok().flatten();
    let mut objects = Vec::new();
    if let Some(tree) = tree {
        tree.push_objects(&mut objects);
    }
    objects
}

/// YAML node with its first line, counted from 1.
struct LineTree {
    line: u64,
    content: LineContent,
}

enum LineContent {
    /// Entries with the line of each key.
    Mapping(Vec<(String, u64, LineTree)>),
    Sequence(Vec<LineTree>),
    Text(String),
    Other,
}

impl LineTree {
    /// Adds the objects of a document: itself, or the items of a list, at any depth. The order is
    /// that of [`Place::object`].
    fn push_objects(self, objects: &mut Vec<Self>) {
        let api_version = self.text_of("apiVersion");
        let kind = self.text_of("kind");
        let kind = kind.map(|kind| DocumentKind::of(api_version, kind));
        let is_list = matches!(kind, Some(DocumentKind::List(_)));
        match self.content {
            LineContent::Mapping(entries) if is_list => {
                let items = entries.into_iter().rfind(|(key, ..)| key == "items");
                if let Some((_, _, tree)) = items
                    && let LineContent::Sequence(items) = tree.content
                {
                    for item in items {
                        item.push_objects(objects);
                    }
                }
            }
            _ => objects.push(self),
        }
    }

    fn text_of(&self, field: &str) -> Option<&str> {
        match &self.field(field)?.1.content {
            LineContent::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value of a field, and the line of its key.
    fn field(&self, name: &str) -> Option<(u64, &Self)> {
        let LineContent::Mapping(entries) = &self.content else {
            return None;
        };
        let found = entries.iter().rfind(|(key, ..)| key == name)?;
        Some((found.1, &found.2))
    }

    fn line(&self, path: &FieldPath) -> u64 {
        let (mut line, mut tree) = (self.line, self);
        for segment in &path.0 {
            let next = match (segment, &tree.content) {
                (FieldSegment::Name(name), _) => tree.field(name),
                (FieldSegment::Index(index), LineContent::Sequence(items)) => {
                    items.get(*index).map(|item| (item.line, item))
                }
                _ => None,
            };
            let Some(next) = next else { break };
            (line, tree) = next;
        }
        line
    }
}

/// Decoder of a YAML node with its lines.
struct LineSeed {
    /// Line within the document.
    line: CurrentLine,
    /// Lines of the file before the document.
    before: u64,
}

impl LineSeed {
    fn current(&self) -> u64 {
        self.line.get() + self.before
    }

    fn next(&self) -> Self {
        Self {
            line: self.line.clone(),
            before: self.before,
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "a visitor returns a result")]
    fn leaf<E>(&self, content: LineContent) -> Result<LineTree, E> {
        Ok(LineTree {
            line: self.current(),
            content,
        })
    }
}

impl<'de> DeserializeSeed<'de> for LineSeed {
    type Value = LineTree;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<LineTree, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for LineSeed {
    type Value = LineTree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LineTree, A::Error> {
        let line = self.current();
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let line = self.current();
            entries.push((key, line, map.next_value_seed(self.next())?));
        }
        Ok(LineTree {
            line,
            content: LineContent::Mapping(entries),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<LineTree, A::Error> {
        let line = self.current();
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.next())? {
            items.push(item);
        }
        Ok(LineTree {
            line,
            content: LineContent::Sequence(items),
        })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<LineTree, E> {
        self.leaf(LineContent::Text(text.to_owned()))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<LineTree, E> {
        self.leaf(LineContent::Other)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<LineTree, E> {
        self.leaf(LineContent::Other)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<LineTree, E> {
        self.leaf(LineContent::Other)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<LineTree, E> {
        self.leaf(LineContent::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<LineTree, E> {
        self.leaf(LineContent::Other)
    }
}
