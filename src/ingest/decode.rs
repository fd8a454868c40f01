//! Decodes a tree of JSON as a type, and finds the fields in it that the type does not have.

use std::borrow::Cow;
use std::cell::RefCell;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde_json::{Error, Map, Value};
use serde_path_to_error::{Path, Segment};

/// Field that a type does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownField {
    /// Path in the form of `spec.ports[0].port`.
    pub(crate) path: String,
    pub(crate) name: String,
    /// Field of the same object that it may be a misspelling of.
    pub(crate) nearest: Option<&'static str>,
}

/// Decodes a tree as `T`. Returns the unknown fields as well, which `T` ignores. Fails with the
/// path and the error of the first value of a wrong type. Where a struct is expected, that is
/// everything but an object: serde would read an array as one.
pub(crate) fn decode<T: DeserializeOwned>(
    tree: &Value,
) -> Result<(T, Vec<UnknownField>), serde_path_to_error::Error<Error>> {
    let unknown = RefCell::default();
    let node = TreeNode {
        value: tree,
        path: String::new(),
        unknown: &unknown,
    };
    let decoded = serde_path_to_error::deserialize(node)?;
    Ok((decoded, unknown.into_inner()))
}

/// Maximum values of wrong types that [`decode_replacing`] replaces: each time, the tree is decoded
/// again.
const MAX_WRONG_TYPES: usize = 20;

/// Decodes a tree as `T`, with empty values in place of those of wrong types: `report` gets the
/// path, the error and the value of each. Returns the unknown fields as well; `None` if there are
/// too many wrong values, if the place of one is unknown, or if no empty value can replace it.
pub(crate) fn decode_replacing<T: DeserializeOwned>(
    mut tree: Cow<'_, Value>,
    mut report: impl FnMut(&str, &Error, &Value),
) -> Option<(T, Vec<UnknownField>)> {
    let (mut replaced, mut is_null) = (String::new(), false);
    for _ in 0..MAX_WRONG_TYPES {
        let error = match decode(&tree) {
            Ok(decoded) => return Some(decoded),
            Err(error) => error,
        };
        let path = error.path().to_string();
        let Some(value) = value_at(tree.to_mut(), error.path()) else {
            report("", error.inner(), &tree);
            return None;
        };
        // Of some types the error does not tell the empty value.
        let is_again = path == replaced;
        if is_again && is_null {
            return None;
        }
        if !is_again {
            report(&path, error.inner(), value);
        }
        *value = if is_again {
            Value::Null
        } else {
            expected(error.inner()).1
        };
        (replaced, is_null) = (path, is_again);
    }
    None
}

/// Returns the value at the path of an error; `None` for the tree itself.
fn value_at<'v>(tree: &'v mut Value, path: &Path) -> Option<&'v mut Value> {
    path.iter().next()?;
    path.iter().try_fold(tree, |value, segment| match segment {
        Segment::Map { key } => value.get_mut(key),
        Segment::Seq { index } => value.get_mut(index),
        Segment::Enum { .. } | Segment::Unknown => None,
    })
}

/// Maximum characters of a value that an error quotes.
pub(crate) const MAX_QUOTED_CHARS: usize = 80;

/// Returns the type that serde expected, and its empty value.
pub(crate) fn expected(error: &Error) -> (&'static str, Value) {
    let error = error.to_string();
    let names_type = error.starts_with("invalid type: ") || error.starts_with("invalid value: ");
    let expected = error.rsplit_once("expected ").filter(|_| names_type);
    match expected.map(|(_, expected)| expected) {
        Some("i32" | "i64" | "u32" | "u64" | "int") => ("an integer", Value::from(0)),
        Some("a string") => ("a string", Value::from("")),
        Some("a boolean") => ("true or false", Value::from(false)),
        Some("a sequence") => ("an array", Value::Array(Vec::new())),
        Some("a map") => ("a map", Value::Object(Map::new())),
        Some("IntOrString") => ("an integer or a string", Value::from(0)),
        Some("a 32-bit integer") => ("a 32-bit integer", Value::from(0)),
        None if error.starts_with("must be an object") => ("an object", Value::Object(Map::new())),
        None if error.starts_with("missing field ") => (
            "an object with all required fields",
            Value::Object(Map::new()),
        ),
        // `None`: text that is not a time, the only value whose error names no type.
        Some("a timestamp string") | None => (
            "a time in the format of RFC 3339",
            Value::from("1970-01-01T00:00:00Z"),
        ),
        // For an object, the error has the name of its type in the API.
        Some(_) => ("an object", Value::Object(Map::new())),
    }
}

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
