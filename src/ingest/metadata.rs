//! Metadata of objects of the API: name, labels and annotations.
//!
//! # Source
//!
//! Upstream: k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto (v1.37)

use std::borrow::Cow;
use std::fmt;

use prost::Message;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Time that is only tested for being set.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Time {}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self {})
    }
}

/// `metadata`.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Unique in its namespace and kind.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 1)]
    pub name: String,
    /// Empty for Nodes.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 3)]
    pub namespace: String,
    /// Version from which a watch resumes.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 6)]
    pub resource_version: String,
    /// Set while finalizers run.
    #[prost(message, optional, tag = 9)]
    pub deletion_timestamp: Option<Time>,
    /// Labels.
    #[serde(deserialize_with = "entries")]
    #[prost(message, repeated, tag = 11)]
    pub labels: Vec<MapEntry>,
    /// Annotations.
    #[serde(deserialize_with = "entries")]
    #[prost(message, repeated, tag = 12)]
    pub annotations: Vec<MapEntry>,
}

impl Metadata {
    /// Returns namespace and name.
    pub(crate) fn object_name(&self) -> ObjectName {
        ObjectName {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        value(&self.labels, key)
    }

    /// Returns the value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<Cow<'_, str>> {
        value(&self.annotations, key)
    }
}

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectName {
    /// Empty for a Node.
    pub namespace: String,
    /// Empty if the object has none, or none that can be decoded.
    pub name: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Escaped, as the name of an object that cannot be decoded is not validated.
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace.escape_debug())?;
        }
        write!(f, "{}", self.name.escape_debug())
    }
}

/// Label or annotation, as bytes: protobuf may hold text that is not valid UTF-8, which matters
/// only in the few that are used.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct MapEntry {
    /// Name.
    #[prost(bytes = "vec", tag = 1)]
    pub key: Vec<u8>,
    /// Value.
    #[prost(bytes = "vec", tag = 2)]
    pub value: Vec<u8>,
}

impl MapEntry {
    /// Returns an entry of texts.
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            key: key.into().into_bytes(),
            value: value.into().into_bytes(),
        }
    }
}

/// Returns the last value of a name, as a map has it.
fn value<'e>(entries: &'e [MapEntry], key: &str) -> Option<Cow<'e, str>> {
    let found = entries
        .iter()
        .rev()
        .find(|entry| entry.key == key.as_bytes());
    found.map(|entry| String::from_utf8_lossy(&entry.value))
}

/// Reads text as bytes. JSON can hold half a surrogate pair (`\ud800`), which is not valid UTF-8;
/// an object with one in an unused label is still read.
struct LossyText(Vec<u8>);

impl<'de> Deserialize<'de> for LossyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfText;

        impl Visitor<'_> for OfText {
            type Value = LossyText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<LossyText, E> {
                Ok(LossyText(text.as_bytes().to_vec()))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<LossyText, E> {
                Ok(LossyText(bytes.to_vec()))
            }
        }

        deserializer.deserialize_bytes(OfText)
    }
}

/// Reads a `null` among labels as an empty string, as Go does.
fn entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MapEntry>, D::Error> {
    Ok(Option::<Entries>::deserialize(deserializer)?.map_or_else(Vec::new, |entries| entries.0))
}

struct Entries(Vec<MapEntry>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap;

        impl<'de> Visitor<'de> for OfMap {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries, M::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<LossyText, Option<LossyText>>()? {
                    let value = value.map_or_else(Vec::new, |text| text.0);
                    entries.push(MapEntry { key: key.0, value });
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(OfMap)
    }
}

/// Reads a field; `null` counts as its default.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
