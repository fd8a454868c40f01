//! Reads YAML as kubectl does, as a serde data format.
//!
//! # Invariants
//!
//! A visitor gets the entries of a mapping in the order of the file, merged ones in place of their
//! `<<`. It gets equal keys as well, of which the last one is to win: also one of a later `<<`.
//!
//! The nodes that anchors and aliases repeat are limited, by their number and depth.
//!
//! # Source
//!
//! Upstream: go.yaml.in/yaml/v2, decode.go; sigs.k8s.io/yaml, yaml.go (v1.6.0)

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::rc::Rc;

use granit_parser::{
    Event, Options, Parser, ScalarStyle, ScanError, StrInput, StructureStyle, Tag,
};
use serde::de::value::StringDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use super::scalar::Scalar;

const INVALID_KEY: &str = "a key must be a scalar";

/// Syntax error, or error of the decoder.
#[derive(Debug)]
pub(crate) struct YamlError {
    /// Counted from 1.
    pub(crate) line: Option<u64>,
    pub(crate) reason: String,
    /// More indentation of the line repairs the text, and does not change its meaning.
    pub(crate) lacks_indentation: bool,
}

/// Line of the event that was read last, counted from 1. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CurrentLine(Rc<Cell<u64>>);

impl CurrentLine {
    pub(crate) fn get(&self) -> u64 {
        self.0.get()
    }
}

/// Reader of the documents of a text.
pub(crate) struct YamlReader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// Event that [`Self::next`] returns again.
    peeked: Option<Event<'t>>,
    anchors: HashMap<usize, Value>,
    /// Nodes that were copied for anchors or by aliases.
    copied_nodes: CopiedNodes,
    /// Styles of the collections that enclose the next node.
    open: Vec<StructureStyle>,
    line: CurrentLine,
}

impl<'t> YamlReader<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let mut options = Options::default();
        // Bug of the parser: with these events, a block after some hundred comments is an error.
        options.set_emit_comments(false);
        Self {
            parser: Parser::new_from_str_with_options(text, options),
            peeked: None,
            anchors: HashMap::new(),
            copied_nodes: CopiedNodes::default(),
            open: Vec::new(),
            line: CurrentLine::default(),
        }
    }

    /// Returns a shared reference to the line of the last event, which the reader updates.
    pub(crate) fn line(&self) -> CurrentLine {
        self.line.clone()
    }

    /// Reads the next document; `None` at the end. Empty documents are skipped.
    ///
    /// # Errors
    ///
    /// A syntax error, after which nothing else can be read, or an error of `seed`.
    pub(crate) fn next_document<'de, S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, YamlError> {
        loop {
            match self.next()? {
                Event::StreamEnd => return Ok(None),
                Event::DocumentStart(..) => {
                    self.anchors.clear();
                    if !self.is_empty_document()? {
                        break;
                    }
                }
                _ => {}
            }
        }
        let document = seed.deserialize(YamlNode(self));
        document.map(Some).map_err(|error| self.located(error))
    }

    fn is_empty_document(&mut self) -> Result<bool, YamlError> {
        let event = self.next()?;
        let is_empty = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, 0, None)
            if Scalar::plain(text.to_string()) == Scalar::Null);
        self.peeked = Some(event);
        Ok(is_empty)
    }

    fn next(&mut self) -> Result<Event<'t>, YamlError> {
        if let Some(event) = self.peeked.take() {
            return Ok(event);
        }
        let (event, span) = match self.parser.next_event() {
            Some(parsed) => parsed.map_err(|error| self.syntax_error(&error))?,
            None => return Ok(Event::StreamEnd),
        };
        self.line.0.set(span.start.line() as u64);
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
    fn syntax_error(&self, error: &ScanError) -> YamlError {
        use granit_parser::ErrorKind::{
            InvalidQuotedScalarIndent, TabInBlockIndentation, TabInIndentation,
        };

        let is_in_brackets = self.open.last() == Some(&StructureStyle::Flow);
        YamlError {
            line: Some(error.marker().line() as u64),
            reason: error.kind().to_string(),
            lacks_indentation: match error.kind() {
                InvalidQuotedScalarIndent | TabInIndentation => true,
                TabInBlockIndentation => is_in_brackets,
                _ => false,
            },
        }
    }

    /// Adds the current line to an error of the decoder.
    fn located(&self, error: YamlError) -> YamlError {
        YamlError {
            line: error.line.or(Some(self.line.get())),
            ..error
        }
    }

    /// Returns the node that an alias repeats.
    fn repeated(&mut self, anchor: usize) -> Result<Value, YamlError> {
        let Some(value) = self.anchors.get(&anchor) else {
            return Err(YamlError::custom("an anchor contains itself"));
        };
        self.copied_nodes.add(value).map_err(YamlError::custom)?;
        // Each alias may add levels to a node that another anchor stores.
        ensure_depth(self.open.len() + depth(value) - 1).map_err(YamlError::custom)?;
        Ok(value.clone())
    }

    /// Stores a copy of a node for its aliases. Counted, because anchors within anchors take memory
    /// for each level.
    fn store_anchor(&mut self, anchor: usize, value: &Value) -> Result<(), YamlError> {
        self.copied_nodes.add(value).map_err(YamlError::custom)?;
        self.anchors.insert(anchor, value.clone());
        Ok(())
    }
}

/// Next node of the text.
struct YamlNode<'r, 't>(&'r mut YamlReader<'t>);

impl<'de> Deserializer<'de> for YamlNode<'_, '_> {
    type Error = YamlError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        let Self(reader) = self;
        let mut event = reader.next()?;
        if let Event::Alias(anchor) = event {
            return deserialize_value(reader.repeated(anchor)?, visitor);
        }
        if let Some(anchor) = take_anchor(&mut event) {
            reader.peeked = Some(event);
            let value = Value::deserialize(YamlNode(reader))?;
            reader.store_anchor(anchor, &value)?;
            return deserialize_value(value, visitor);
        }
        ensure_depth(reader.open.len()).map_err(YamlError::custom)?;
        match event {
            Event::Scalar(text, style, _, tag) => {
                visit_scalar(scalar(tag.as_deref(), text, style), visitor)
            }
            Event::SequenceStart(..) => visitor.visit_seq(Sequence(reader)),
            Event::MappingStart(..) => visitor.visit_map(Mapping {
                reader,
                merged: VecDeque::new(),
                merged_value: None,
            }),
            // The parser begins each node with one of the above.
            _ => Err(YamlError::custom("expected a node")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        let event = self.0.next()?;
        let is_null = match &event {
            Event::Scalar(text, style, 0, tag) => {
                Some(scalar(tag.as_deref(), text.clone(), *style) == Scalar::Null)
            }
            Event::SequenceStart(_, 0, _) | Event::MappingStart(_, 0, _) => Some(false),
            // An alias or an anchor, whose value is stored as well.
            _ => None,
        };
        if is_null == Some(true) {
            return visitor.visit_none();
        }
        self.0.peeked = Some(event);
        if is_null == Some(false) {
            return visitor.visit_some(self);
        }
        let value = Value::deserialize(self)?;
        value.deserialize_option(visitor).map_err(YamlError::custom)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Removes the anchor of a node; `None` if it has none, which is 0 in an event.
fn take_anchor(event: &mut Event<'_>) -> Option<usize> {
    let (Event::Scalar(_, _, anchor, _)
    | Event::SequenceStart(_, anchor, _)
    | Event::MappingStart(_, anchor, _)) = event
    else {
        return None;
    };
    Some(std::mem::take(anchor)).filter(|anchor| *anchor != 0)
}

fn deserialize_value<'de, V: Visitor<'de>>(
    value: Value,
    visitor: V,
) -> Result<V::Value, YamlError> {
    value.deserialize_any(visitor).map_err(YamlError::custom)
}

/// Resolves a scalar: text if it is quoted without a tag, or has another tag than those below.
fn scalar(tag: Option<&Tag>, text: Cow<'_, str>, style: ScalarStyle) -> Scalar {
    let is_resolved = match tag {
        None => style == ScalarStyle::Plain,
        Some(tag) => matches!(tag.core_suffix(), Some("bool" | "int" | "float" | "null")),
    };
    if is_resolved {
        Scalar::plain(text.into_owned())
    } else {
        Scalar::Text(text.into_owned())
    }
}

fn visit_scalar<'de, V: Visitor<'de>>(scalar: Scalar, visitor: V) -> Result<V::Value, YamlError> {
    match scalar {
        Scalar::Null => visitor.visit_unit(),
        Scalar::Bool(value) => visitor.visit_bool(value),
        Scalar::Float(value) => visitor.visit_f64(value),
        Scalar::Text(text) => visitor.visit_string(text),
        Scalar::Integer(value) => match (u64::try_from(value), i64::try_from(value)) {
            (Ok(value), _) => visitor.visit_u64(value),
            (_, Ok(value)) => visitor.visit_i64(value),
            _ => Err(YamlError::custom(format!("{value} is not a valid integer"))),
        },
    }
}

/// Items of a sequence.
struct Sequence<'r, 't>(&'r mut YamlReader<'t>);

impl<'de> SeqAccess<'de> for Sequence<'_, '_> {
    type Error = YamlError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, YamlError> {
        let event = self.0.next()?;
        if event == Event::SequenceEnd {
            return Ok(None);
        }
        self.0.peeked = Some(event);
        seed.deserialize(YamlNode(self.0)).map(Some)
    }
}

/// Entries of a mapping, with merged ones in place of each `<<`.
struct Mapping<'r, 't> {
    reader: &'r mut YamlReader<'t>,
    merged: VecDeque<(String, Value)>,
    /// Value of the last key, if the entry is a merged one.
    merged_value: Option<Value>,
}

impl Mapping<'_, '_> {
    /// Returns the next key of the text, or of the entries that are merged at this place.
    fn next_key(&mut self) -> Result<Option<String>, YamlError> {
        loop {
            if let Some((key, value)) = self.merged.pop_front() {
                self.merged_value = Some(value);
                return Ok(Some(key));
            }
            let event = self.reader.next()?;
            match event {
                Event::MappingEnd => return Ok(None),
                Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<" => self.merge()?,
                Event::Scalar(text, style, anchor, tag) => {
                    let key = scalar(tag.as_deref(), text, style).into_key();
                    if anchor != 0 {
                        self.reader
                            .store_anchor(anchor, &Value::String(key.clone()))?;
                    }
                    return Ok(Some(key));
                }
                Event::Alias(anchor) => {
                    return match self.reader.repeated(anchor)? {
                        Value::String(key) => Ok(Some(key)),
                        Value::Array(_) | Value::Object(_) => Err(YamlError::custom(INVALID_KEY)),
                        other => Ok(Some(other.to_string())),
                    };
                }
                _ => return Err(YamlError::custom(INVALID_KEY)),
            }
        }
    }

    /// Reads the value of `<<`: a mapping, or a sequence of mappings, of which the first one with a
    /// key wins.
    fn merge(&mut self) -> Result<(), YamlError> {
        let mappings = match Value::deserialize(YamlNode(self.reader))? {
            Value::Array(items) => items.into_iter().rev().collect(),
            other => vec![other],
        };
        for mapping in mappings {
            let Value::Object(entries) = mapping else {
                return Err(YamlError::custom("`<<` requires a mapping"));
            };
            self.merged.extend(entries);
        }
        Ok(())
    }
}

impl<'de> MapAccess<'de> for Mapping<'_, '_> {
    type Error = YamlError;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, YamlError> {
        let Some(key) = self.next_key()? else {
            return Ok(None);
        };
        let key: StringDeserializer<YamlError> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, YamlError> {
        match self.merged_value.take() {
            Some(value) => seed.deserialize(value).map_err(YamlError::custom),
            None => seed.deserialize(YamlNode(self.reader)),
        }
    }
}

impl Error for YamlError {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self {
            line: None,
            reason: reason.to_string(),
            lacks_indentation: false,
        }
    }
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for YamlError {}

/// Maximum copied nodes in one document. Aliases to nodes with aliases can turn a few lines into
/// gigabytes, and each anchor stores a copy of its node with everything in that.
const MAX_COPIED_NODES: usize = 1_000_000;

/// Number of copied nodes in one document.
#[derive(Debug, Default)]
struct CopiedNodes(usize);

impl CopiedNodes {
    /// Counts the nodes of one more copy, before it is made.
    pub(super) fn add(&mut self, value: &Value) -> Result<(), &'static str> {
        self.0 += nodes(value);
        if self.0 > MAX_COPIED_NODES {
            return Err("anchors and aliases repeat too many nodes");
        }
        Ok(())
    }
}

/// Returns the number of nodes in a value. A long text counts for several, as it takes more memory.
pub(super) fn nodes(value: &Value) -> usize {
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

/// Maximum depth of nested nodes, as in `serde_json`: each level takes stack.
const MAX_DEPTH: usize = 128;

/// Fails below [`MAX_DEPTH`] levels.
fn ensure_depth(levels: usize) -> Result<(), &'static str> {
    if levels > MAX_DEPTH {
        return Err("nested deeper than 128 levels");
    }
    Ok(())
}

/// Returns the number of levels of a value: 1 without nested values.
pub(super) fn depth(value: &Value) -> usize {
    let nested = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(entries) => entries.values().map(depth).max(),
        _ => None,
    };
    1 + nested.unwrap_or_default()
}

/// Bytes of a text that count as one more node: about the memory of a node.
const NODE_BYTES: usize = 64;

#[cfg(test)]
#[path = "tests/reader.rs"]
mod tests;

#[cfg(test)]
#[path = "tests/limits.rs"]
mod limits_tests;
