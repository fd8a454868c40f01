//! Decodes a tree of JSON as a type. Finds the fields in it that the type does not have, and the
//! path of a value that it rejects.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::iter::Enumerate;
use std::slice;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Error, Value, map};

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
    let decoded = decode_tree(tree, Some(&unknown))?;
    Ok((decoded, unknown.into_inner()))
}

/// Decodes a tree as `T`, which has a part of the fields.
pub(crate) fn decode_used<T: DeserializeOwned>(tree: &Value) -> Result<T, WrongType> {
    decode_tree(tree, None)
}

fn decode_tree<T: DeserializeOwned>(
    tree: &Value,
    unknown: Option<&RefCell<Vec<UnknownField>>>,
) -> Result<T, WrongType> {
    let rejected = RefCell::default();
    let node = TreeNode {
        value: tree,
        place: Place::Root,
        findings: Findings {
            unknown,
            rejected: &rejected,
        },
    };
    T::deserialize(node).map_err(|error| WrongType {
        path: rejected.into_inner().unwrap_or_default(),
        error: shortened(&error.to_string(), MAX_ERROR_CHARS).into_owned(),
    })
}

/// Maximum characters of an error, which quotes a value.
const MAX_ERROR_CHARS: usize = 200;

/// Maximum characters of a value that an error quotes.
pub(crate) const MAX_QUOTED_CHARS: usize = 80;

/// Findings on the nodes of a tree.
#[derive(Clone, Copy)]
struct Findings<'p> {
    /// `None`: they are not looked for.
    unknown: Option<&'p RefCell<Vec<UnknownField>>>,
    /// Path of the innermost node that was rejected.
    rejected: &'p RefCell<Option<String>>,
}

/// Node of a tree.
struct TreeNode<'a, 'p> {
    value: &'a Value,
    place: Place<'p>,
    findings: Findings<'p>,
}

/// Place of a node in its parent. A path is put together only for a finding.
#[derive(Clone, Copy)]
enum Place<'p> {
    Root,
    Field(&'p Place<'p>, &'p str),
    Item(&'p Place<'p>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl<'de> TreeNode<'de, '_> {
    /// Decodes a node inside of this one. An error is of the innermost node that returns it.
    fn decode_inner<T: DeserializeSeed<'de>>(
        &self,
        seed: T,
        value: &'de Value,
        place: Place<'_>,
    ) -> Result<T::Value, Error> {
        let findings = self.findings;
        let inner = TreeNode {
            value,
            place,
            findings,
        };
        seed.deserialize(inner).inspect_err(|_| {
            let mut rejected = findings.rejected.borrow_mut();
            rejected.get_or_insert_with(|| place.to_string());
        })
    }
}

/// Fields of a node.
struct Fields<'de, 'p> {
    node: TreeNode<'de, 'p>,
    entries: map::Iter<'de>,
    /// Field whose name was read last.
    field: Option<(&'de str, &'de Value)>,
}

impl<'de> MapAccess<'de> for Fields<'de, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        self.field = self
            .entries
            .next()
            .map(|(name, value)| (name.as_str(), value));
        let name = self
            .field
            .map(|(name, _)| BorrowedStrDeserializer::new(name));
        name.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (name, value) = self.field.unwrap_or(("", &Value::Null));
        let place = Place::Field(&self.node.place, name);
        self.node.decode_inner(seed, value, place)
    }
}

/// Items of a node.
struct Items<'de, 'p> {
    node: TreeNode<'de, 'p>,
    items: Enumerate<slice::Iter<'de, Value>>,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some((index, value)) = self.items.next() else {
            return Ok(None);
        };
        let place = Place::Item(&self.node.place, index);
        self.node.decode_inner(seed, value, place).map(Some)
    }
}

impl<'de> Deserializer<'de> for TreeNode<'de, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(fields) => visitor.visit_map(Fields {
                node: self,
                entries: fields.iter(),
                field: None,
            }),
            Value::Array(items) => visitor.visit_seq(Items {
                node: self,
                items: items.iter().enumerate(),
            }),
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
        if let Some(found) = self.findings.unknown {
            let names = entries.keys().map(String::as_str);
            let unknown = names.filter(|name| !fields.contains(name));
            let unknown = unknown.map(|name| UnknownField {
                path: Place::Field(&self.place, name).to_string(),
                name: name.to_owned(),
                nearest: nearest(name, fields.iter().copied()),
            });
            found.borrow_mut().extend(unknown);
        }
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
