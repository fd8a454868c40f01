//! What all objects have: a name, and what others wrote on it.
//!
//! Apart because every kind begins with it.

use std::collections::BTreeMap;

use prost::Message;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::or_default;

/// A time of which it matters only that it is set.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
#[cfg_attr(test, derive(serde::Serialize))]
pub struct Time {}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self {})
    }
}

/// `metadata`.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
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
    /// Where a watch resumes.
    #[serde(deserialize_with = "or_default")]
    #[prost(string, tag = 6)]
    pub resource_version: String,
    /// Set while finalizers run.
    #[prost(message, optional, tag = 9)]
    pub deletion_timestamp: Option<Time>,
    /// Labels.
    #[serde(deserialize_with = "entries")]
    #[prost(btree_map = "string, string", tag = 11)]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(deserialize_with = "entries")]
    #[prost(btree_map = "string, string", tag = 12)]
    pub annotations: BTreeMap<String, String>,
}

/// A `null` among labels is an empty string, as it is for Go.
fn entries<'de, D>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    let entries = Option::<BTreeMap<String, Option<String>>>::deserialize(deserializer)?;
    let entries = entries.unwrap_or_default().into_iter();
    Ok(entries
        .map(|(key, value)| (key, value.unwrap_or_default()))
        .collect())
}
