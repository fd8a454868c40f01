//! One event of a watch, from its message.
//!
//! The events of the wire, and what of them is trusted.

use std::borrow::Cow;

use bytes::Bytes;
use prost::Message;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::encoding::Encoding;
use super::envelope;
use super::error::{ApiError, malformed};
use super::kind::Kind;
use super::object::Object;
use super::raw::{Raw, lossy};
use super::status::Status;
use super::type_meta;
use crate::ingest::Metadata;

/// Says on a bookmark that the state sent at first is now complete.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// One event of a watch.
pub(super) enum Event<K> {
    /// An object that did not exist before.
    Added(Object<K>),
    /// An object that existed and has changed.
    Modified(Object<K>),
    /// It was this and is gone.
    Gone(Object<K>),
    /// Everything up to this resource version was sent.
    Bookmark(Bookmark),
}

/// What a bookmark says.
pub(super) struct Bookmark {
    pub(super) resource_version: String,
    /// The initial state is complete.
    pub(super) ends_initial: bool,
}

impl<K: Kind> Event<K> {
    /// `None` for an empty line, and for events of a type that is not known.
    pub(super) fn read(encoding: Encoding, message: &Bytes) -> Result<Option<Self>, ApiError> {
        match encoding {
            Encoding::Json if message.iter().all(u8::is_ascii_whitespace) => Ok(None),
            Encoding::Json => {
                let text = lossy(message);
                let Line { kind, object } = serde_json::from_str(&text)
                    .map_err(|_| malformed("a line of a watch is cut off or not JSON"))?;
                match kind.as_ref() {
                    "ADDED" | "MODIFIED" | "DELETED" => type_meta::expect_object::<K>(object)?,
                    _ => {}
                }
                Self::of(&kind, &Raw::Json(object))
            }
            Encoding::Protobuf => {
                let Frame { kind, object } = Frame::decode(message.clone())
                    .map_err(|_| malformed("a frame of a watch is not an event"))?;
                let is_object = matches!(kind.as_str(), "ADDED" | "MODIFIED" | "DELETED");
                if !is_object && !matches!(kind.as_str(), "BOOKMARK" | "ERROR") {
                    return Ok(None);
                }
                let (type_meta, object) = envelope::open(object.raw)?;
                if is_object {
                    type_meta.expect_object::<K>()?;
                }
                Self::of(&kind, &Raw::Protobuf(object))
            }
        }
    }

    fn of(kind: &str, object: &Raw<'_>) -> Result<Option<Self>, ApiError> {
        match kind {
            "ADDED" => Ok(Some(Self::Added(Object::read(object)))),
            "MODIFIED" => Ok(Some(Self::Modified(Object::read(object)))),
            "DELETED" => Ok(Some(Self::Gone(Object::read(object)))),
            "BOOKMARK" => Ok(Some(Self::Bookmark(Bookmark::read(object)?))),
            "ERROR" => {
                let status: Status = object.read().unwrap_or_else(|(partial, _)| partial);
                Err(status.into_error(None))
            }
            _ => Ok(None),
        }
    }
}

impl Bookmark {
    fn read(raw: &Raw<'_>) -> Result<Self, ApiError> {
        let Marker { metadata } = raw.read().unwrap_or_else(|(partial, _)| partial);
        if metadata.resource_version.is_empty() {
            return Err(malformed("a bookmark has no resource version"));
        }
        let end = metadata.annotation(INITIAL_EVENTS_END);
        Ok(Self {
            ends_initial: end.is_some_and(|value| value == "true"),
            resource_version: metadata.resource_version,
        })
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// `WatchEvent`.
#[derive(Clone, PartialEq, Message)]
struct Frame {
    #[prost(string, tag = 1)]
    kind: String,
    #[prost(message, required, tag = 2)]
    object: Extension,
}

/// `RawExtension`: an envelope.
#[derive(Clone, PartialEq, Message)]
struct Extension {
    #[prost(bytes = "bytes", tag = 1)]
    raw: Bytes,
}

/// An object that is there for its metadata.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
struct Marker {
    #[prost(message, required, tag = 1)]
    metadata: Metadata,
}
