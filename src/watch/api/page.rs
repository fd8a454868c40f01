//! Pages of lists in JSON and protobuf, split into objects.
//!
//! A page stays in memory as it was received while its objects are decoded one by one.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::decode::expect_type;
use super::encoding::{EncodedObject, Encoding, lossy, open_envelope};
use super::error::{ApiError, not_decodable, protocol_error};
use super::resource::Resource;

/// Maximum objects of a list, ten times as many as in the largest clusters. A limit of bytes alone
/// is not enough: an object of two bytes, `{}`, takes hundreds of bytes of memory.
pub(super) const MAX_LIST_OBJECTS: usize = 1_000_000;

/// One page of a list, not decoded.
pub(super) enum Page {
    Json(String),
    Protobuf(Bytes),
}

impl Page {
    pub(super) fn new(body: Vec<u8>, encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Json(match String::from_utf8(body) {
                Ok(text) => text,
                Err(error) => lossy(error.as_bytes()).into_owned(),
            }),
            Encoding::Protobuf => Self::Protobuf(body.into()),
        }
    }

    /// Splits the page into its objects. Fails if it is not a list of the kind, or has too many.
    pub(super) fn split<K: Resource>(&self) -> Result<PageContents<'_>, ApiError> {
        match self {
            Self::Json(body) => {
                let list: JsonList<'_> = serde_json::from_str(body).map_err(not_decodable)?;
                let [version, kind] = [list.api_version, list.kind].map(Option::unwrap_or_default);
                expect_type::<K>(version.as_bytes(), kind.as_bytes(), "List")?;
                let Some(items) = list.items else {
                    return Err(not_decodable("a list has no `items`"));
                };
                Ok(PageContents {
                    metadata: list.metadata,
                    objects: items.into_iter().map(EncodedObject::Json).collect(),
                })
            }
            Self::Protobuf(body) => {
                let (type_meta, message) = open_envelope(body.clone())?;
                expect_type::<K>(&type_meta.api_version, &type_meta.kind, "List")?;
                check_item_count(&message)?;
                let ProtobufList { metadata, items } =
                    ProtobufList::decode(message).map_err(not_decodable)?;
                let objects = items.into_iter().map(EncodedObject::Protobuf).collect();
                Ok(PageContents { metadata, objects })
            }
        }
    }
}

/// Objects of a page, not decoded.
pub(super) struct PageContents<'a> {
    pub(super) metadata: ListMetadata,
    pub(super) objects: Vec<EncodedObject<'a>>,
}

/// List of any kind in JSON, such as `ServiceList`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonList<'a> {
    #[serde(borrow, default)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow, default, deserialize_with = "null_or_list")]
    items: Option<Vec<&'a RawValue>>,
}

/// Decodes `items`: Go writes an empty list as null. Missing `items` stay `None`.
fn null_or_list<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<&'de RawValue>>, D::Error> {
    let items = Option::<JsonItems<'de>>::deserialize(deserializer)?;
    Ok(Some(items.map_or_else(Vec::new, |items| items.0)))
}

/// Objects of a page in JSON.
struct JsonItems<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for JsonItems<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(JsonItemsVisitor)
    }
}

struct JsonItemsVisitor;

impl<'de> Visitor<'de> for JsonItemsVisitor {
    type Value = JsonItems<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<JsonItems<'de>, A::Error> {
        let mut objects = Vec::new();
        while let Some(item) = items.next_element()? {
            if objects.len() >= MAX_LIST_OBJECTS {
                return Err(A::Error::custom(TOO_MANY_OBJECTS));
            }
            objects.push(item);
        }
        Ok(JsonItems(objects))
    }
}

/// Fails if a list in protobuf has too many items. Checked before decoding, which takes memory for
/// each item.
fn check_item_count(mut list: &[u8]) -> Result<(), ApiError> {
    let mut items = 0;
    while !list.is_empty() {
        let (tag, wire_type) = decode_key(&mut list).map_err(not_decodable)?;
        items += usize::from(tag == ITEMS_TAG);
        if items > MAX_LIST_OBJECTS {
            return Err(protocol_error(TOO_MANY_OBJECTS));
        }
        skip_field(wire_type, tag, &mut list, DecodeContext::default()).map_err(not_decodable)?;
    }
    Ok(())
}

/// Error of a list with more objects than [`MAX_LIST_OBJECTS`].
pub(super) const TOO_MANY_OBJECTS: &str = "the list exceeds 1,000,000 objects";

/// Tag of `items` in every list.
const ITEMS_TAG: u32 = 2;

/// List of any kind in protobuf, such as `ServiceList`. The bytes of its items are shared, not
/// copied.
#[derive(Clone, PartialEq, Message)]
struct ProtobufList {
    #[prost(message, required, tag = 1)]
    metadata: ListMetadata,
    #[prost(bytes = "bytes", repeated, tag = 2)]
    items: Vec<Bytes>,
}

/// `ListMeta`.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMetadata {
    #[prost(string, optional, tag = 2)]
    pub(super) resource_version: Option<String>,
    #[prost(string, optional, tag = 3)]
    #[serde(rename = "continue")]
    pub(super) continue_token: Option<String>,
}

#[cfg(test)]
#[path = "tests/page.rs"]
mod tests;
