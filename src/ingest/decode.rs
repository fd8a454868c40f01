//! Decodes a tree of JSON as a type, and finds the fields in it that the type does not have.

use std::borrow::Cow;
use std::cell::RefCell;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde_json::{Error, Value};

/// Field that a type does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownField {
    /// Path in the form of `spec.ports[0].port`.
    pub(crate) path: String,
    pub(crate) name: String,
    /// Field of the same object that it may be a misspelling of.
    pub(crate) nearest: Option<&'static str>,
}

/// First value of a wrong type.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {error}")]
pub(crate) struct WrongType {
    /// Path in the form of `spec.ports[0].port`; empty for the whole tree.
    pub(crate) path: String,
    pub(crate) error: String,
}

/// Decodes a tree as `T`. Returns the unknown fields as well, which `T` ignores. Where a struct is
/// expected, a wrong type is everything but an object: serde would read an array as one.
pub(crate) fn decode<T: DeserializeOwned>(
    tree: &Value,
) -> Result<(T, Vec<UnknownField>), WrongType> {
    let unknown = RefCell::default();
    let node = TreeNode {
        value: tree,
        path: String::new(),
        unknown: &unknown,
    };
    let decoded = serde_path_to_error::deserialize(node).map_err(|error| {
        let path = error.path().to_string();
        WrongType {
            // `.` for the tree itself.
            path: if path == "." { String::new() } else { path },
            error: shortened(&error.inner().to_string(), MAX_ERROR_CHARS).into_owned(),
        }
    })?;
    Ok((decoded, unknown.into_inner()))
}

/// Maximum characters of an error, which quotes a value.
const MAX_ERROR_CHARS: usize = 200;

/// Maximum characters of a value that an error quotes.
pub(crate) const MAX_QUOTED_CHARS: usize = 80;

/// Node of a tree.
struct TreeNode<'a> {
    value: &'a Value,
    path: String,
    unknown: &'a RefCell<Vec<UnknownField>>,
}

impl<'a> TreeNode<'a> {
    /// Returns the path of a field of this node.
    fn path_of(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    fn nested(&self, value: &'a Value, path: String) -> Self {
        Self {
            value,
            path,
            unknown: self.unknown,
        }
    }
}

impl<'de> Deserializer<'de> for TreeNode<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(entries) => {
                let entries = entries
                    .iter()
                    .map(|(name, value)| (name.as_str(), self.nested(value, self.path_of(name))));
                visitor.visit_map(MapDeserializer::new(entries))
            }
            Value::Array(items) => {
                let items = items
                    .iter()
                    .enumerate()
                    .map(|(index, value)| self.nested(value, format!("{}[{index}]", self.path)));
                visitor.visit_seq(SeqDeserializer::new(items))
            }
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let Value::Object(entries) = self.value else {
            let value = self.value.to_string();
            let value = shortened(&value, MAX_QUOTED_CHARS);
            return Err(Error::custom(format!("must be an object, got {value}")));
        };
        let names = entries.keys().map(String::as_str);
        let unknown = names.filter(|name| !fields.contains(name));
        let unknown = unknown.map(|name| UnknownField {
            path: self.path_of(name),
            name: name.to_owned(),
            nearest: nearest(name, fields.iter().copied()),
        });
        self.unknown.borrow_mut().extend(unknown);
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Error> for TreeNode<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Returns the known name that an unknown one is most likely a misspelling of.
pub(crate) fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    /// Edits of a misspelling. More of them, or more than a third of the name, lead to another
    /// name.
    const MAX_EDITS: usize = 3;

    let lower = name.to_ascii_lowercase();
    // Names whose lengths differ by more need no comparison, which takes the product of both.
    let known = known
        .into_iter()
        .filter(|known| known.len().abs_diff(name.len()) <= MAX_EDITS);
    let edits = |known: &str| strsim::osa_distance(&known.to_ascii_lowercase(), &lower);
    let (edits, nearest) = known.map(|known| (edits(known), known)).min()?;
    (edits <= MAX_EDITS && edits * 3 <= name.len()).then_some(nearest)
}

/// Returns a text from an untrusted file, or its beginning if it is longer than this many
/// characters.
pub(crate) fn shortened(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}
