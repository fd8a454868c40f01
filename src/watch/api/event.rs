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

const ADDED: &str = "ADDED";
const MODIFIED: &str = "MODIFIED";
const DELETED: &str = "DELETED";
const BOOKMARK: &str = "BOOKMARK";
const ERROR: &str = "ERROR";

/// Types of events whose object is of the kind that is watched. A bookmark is such an object with
/// nothing but a resource version; of another kind, its resource version is that of other objects.
const IN_KIND: [&str; 4] = [ADDED, MODIFIED, DELETED, BOOKMARK];

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
                if IN_KIND.contains(&kind.as_ref()) {
                    type_meta::expect_object::<K>(object)?;
                }
                Self::of(&kind, &Raw::Json(object))
            }
            Encoding::Protobuf => {
                let Frame { kind, object } = Frame::decode(message.clone())
                    .map_err(|_| malformed("a frame of a watch is not an event"))?;
                let is_in_kind = IN_KIND.contains(&kind.as_str());
                if !is_in_kind && kind != ERROR {
                    return Ok(None);
                }
                let (type_meta, object) = envelope::open(object.raw)?;
                if is_in_kind {
                    type_meta.expect_object::<K>()?;
                }
                Self::of(&kind, &Raw::Protobuf(object))
            }
        }
    }

    fn of(kind: &str, object: &Raw<'_>) -> Result<Option<Self>, ApiError> {
        match kind {
            ADDED => Ok(Some(Self::Added(named(object)?))),
            MODIFIED => Ok(Some(Self::Modified(named(object)?))),
            DELETED => Ok(Some(Self::Gone(named(object)?))),
            BOOKMARK => Ok(Some(Self::Bookmark(Bookmark::read(object)?))),
            ERROR => {
                let status: Status = object.read().unwrap_or_else(|(partial, _)| partial);
                Err(status.into_error(None))
            }
            _ => Ok(None),
        }
    }
}

/// The object of an event. Without its name the event is lost, whatever else can be read of it.
fn named<K: Kind>(raw: &Raw<'_>) -> Result<Object<K>, ApiError> {
    let object = Object::read(raw);
    if object.is_named() {
        return Ok(object);
    }
    Err(malformed("the object of an event has no name"))
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
