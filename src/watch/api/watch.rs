//! One watch, from its request to its end.
//!
//! The body is split into messages, each one line of JSON or one frame of protobuf. Each message is
//! decoded as an event.

use std::borrow::Cow;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::client::ApiClient;
use super::encoding::{
    self, EncodedObject, Encoding, ReceivedObject, expect_json_object, expect_type, lossy,
};
use super::error::{ApiError, not_decodable, protocol_error};
use super::resource::{Resource, Selector, watch_uri};
use super::response::{ApiResponse, Status};
use crate::ingest::Metadata;

/// Time that a watch may last beyond `timeoutSeconds`.
const WATCH_TIMEOUT_GRACE: Duration = Duration::from_secs(30);

pub(super) struct Watch {
    messages: Messages,
    opened: Instant,
    /// Time at which the watch is aborted if the server has not ended it.
    deadline: Instant,
    /// Bytes of the messages since the last [`Self::take_received_bytes`].
    received_bytes: usize,
}

impl Watch {
    /// Sends the request, and waits until the server accepts it. The server ends the watch after
    /// `timeout`.
    pub(super) async fn open<K: Resource>(
        server: &ApiClient,
        selector: &Selector<K>,
        resume_from: Option<&str>,
        timeout: Duration,
    ) -> Result<Self, ApiError> {
        let uri = watch_uri(selector, resume_from, timeout);
        let accept = server.encoding.accept_stream();
        let messages = Messages::new(ApiResponse::get(server, accept, &uri).await?);
        let opened = Instant::now();
        let deadline = opened + timeout + WATCH_TIMEOUT_GRACE;
        Ok(Self {
            messages,
            opened,
            deadline,
            received_bytes: 0,
        })
    }

    pub(super) fn take_received_bytes(&mut self) -> usize {
        std::mem::take(&mut self.received_bytes)
    }

    /// Returns the time since the server accepted the watch.
    pub(super) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Returns the next event, or `None` if the watch ended cleanly. Fails if none came
    /// before `idle_deadline`, or if the server has not ended the watch in time.
    pub(super) async fn next<K: Resource>(
        &mut self,
        idle_deadline: Instant,
    ) -> Result<Option<WatchEvent<K>>, ApiError> {
        let idle_deadline = idle_deadline.min(self.deadline);
        loop {
            // If messages come without a pause, `Messages::next` below never times out.
            if Instant::now() >= self.deadline {
                return Err(ApiError::TimedOut(self.age()));
            }
            let Some(message) = self.messages.next(idle_deadline).await? else {
                return Ok(None);
            };
            self.received_bytes = self.received_bytes.saturating_add(message.len());
            if let Some(event) = WatchEvent::decode(self.messages.response.encoding, &message)? {
                return Ok(Some(event));
            }
            // Blank lines and events of unknown types are skipped, and do not extend the deadline.
            if Instant::now() >= idle_deadline {
                return Err(ApiError::TimedOut(self.age()));
            }
        }
    }
}

/// Messages of a response, one at a time. Buffers at most one message, and the piece of the body in
/// which it ends.
struct Messages {
    response: ApiResponse,
    unread: BytesMut,
    /// Number of bytes at the start of `unread` without a line end; 0 for protobuf.
    searched: usize,
    /// The body has ended, and must not be polled again.
    has_ended: bool,
}

impl Messages {
    fn new(response: ApiResponse) -> Self {
        Self {
            response,
            unread: BytesMut::new(),
            searched: 0,
            has_ended: false,
        }
    }

    /// Returns the next message, or `None` if the body ended cleanly. The deadline is not extended
    /// by a part of a message: a frame with a wrong length would stall its watch until the end.
    async fn next(&mut self, idle_deadline: Instant) -> Result<Option<Bytes>, ApiError> {
        loop {
            if let Some(message) = self.take_message()? {
                return Ok(Some(message));
            }
            if self.has_ended {
                return Ok(None);
            }
            match self.response.piece(idle_deadline).await? {
                Some(piece) => self.unread.extend_from_slice(&piece),
                None => return self.take_last_message(),
            }
        }
    }

    fn take_message(&mut self) -> Result<Option<Bytes>, ApiError> {
        match self.response.encoding {
            Encoding::Json => encoding::take_line(&mut self.unread, &mut self.searched),
            Encoding::Protobuf => encoding::take_frame(&mut self.unread),
        }
    }

    /// Returns the message that only the end of the body completes, if there is one.
    fn take_last_message(&mut self) -> Result<Option<Bytes>, ApiError> {
        self.searched = 0;
        self.has_ended = true;
        match self.response.encoding {
            Encoding::Json => Ok(encoding::take_last_line(&mut self.unread)),
            Encoding::Protobuf => encoding::expect_no_partial_frame(&self.unread).map(|()| None),
        }
    }
}

/// Annotation of the final bookmark of a WatchList.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

const ADDED: &str = "ADDED";
const MODIFIED: &str = "MODIFIED";
const DELETED: &str = "DELETED";
const BOOKMARK: &str = "BOOKMARK";
const ERROR: &str = "ERROR";

/// Types of the events whose object must not name another kind than the watched one. The resource
/// version of a bookmark with another kind, from a faulty server, would say nothing of this kind.
const TYPED_EVENTS: [&str; 4] = [ADDED, MODIFIED, DELETED, BOOKMARK];

pub(super) enum WatchEvent<K> {
    /// The object was created, now matches the selectors, or is an initial object of a WatchList.
    Added(ReceivedObject<K>),
    Modified(ReceivedObject<K>),
    /// The object was deleted, or no longer matches the selectors; this is the last state that did.
    Deleted(ReceivedObject<K>),
    /// Everything up to this resource version was sent.
    Bookmark {
        resource_version: String,
        /// The initial events of the WatchList are complete.
        ends_initial_events: bool,
    },
}

impl<K: Resource> WatchEvent<K> {
    /// Decodes a message; `None` for an empty line, and for events of an unknown type.
    pub(super) fn decode(encoding: Encoding, message: &Bytes) -> Result<Option<Self>, ApiError> {
        match encoding {
            Encoding::Json if message.iter().all(u8::is_ascii_whitespace) => Ok(None),
            Encoding::Json => {
                let text = lossy(message);
                let JsonEvent { event_type, object } = serde_json::from_str(&text)
                    .map_err(|_| not_decodable("a line of a watch is incomplete or not JSON"))?;
                if TYPED_EVENTS.contains(&event_type.as_ref()) {
                    expect_json_object::<K>(object)?;
                }
                Self::new(&event_type, &EncodedObject::Json(object))
            }
            Encoding::Protobuf => {
                let ProtobufEvent { event_type, object } =
                    ProtobufEvent::decode(message.clone())
                        .map_err(|_| not_decodable("a frame of a watch is not an event"))?;
                let is_typed = TYPED_EVENTS.contains(&event_type.as_str());
                if !is_typed && event_type != ERROR {
                    return Ok(None);
                }
                let (type_meta, object) = encoding::open_envelope(object.raw)?;
                if is_typed {
                    expect_type::<K>(&type_meta.api_version, &type_meta.kind, "")?;
                }
                Self::new(&event_type, &EncodedObject::Protobuf(object))
            }
        }
    }

    fn new(event_type: &str, object: &EncodedObject<'_>) -> Result<Option<Self>, ApiError> {
        match event_type {
            ADDED => Ok(Some(Self::Added(decode_named(object)?))),
            MODIFIED => Ok(Some(Self::Modified(decode_named(object)?))),
            DELETED => Ok(Some(Self::Deleted(decode_named(object)?))),
            BOOKMARK => Self::bookmark(object).map(Some),
            ERROR => {
                let status: Status = object.decode().unwrap_or_else(|(partial, _)| partial);
                Err(status.into_error(None))
            }
            _ => Ok(None),
        }
    }

    fn bookmark(object: &EncodedObject<'_>) -> Result<Self, ApiError> {
        let BookmarkObject { metadata } = object.decode().unwrap_or_else(|(partial, _)| partial);
        if metadata.resource_version.is_empty() {
            return Err(protocol_error("a bookmark has no resource version"));
        }
        let end = metadata.annotation(INITIAL_EVENTS_END);
        Ok(Self::Bookmark {
            ends_initial_events: end.is_some_and(|value| value == "true"),
            resource_version: metadata.resource_version,
        })
    }
}

/// Decodes the object of an event. Fails if its name cannot be decoded: it is then unknown which
/// object has changed.
fn decode_named<K: Resource>(object: &EncodedObject<'_>) -> Result<ReceivedObject<K>, ApiError> {
    let object = ReceivedObject::decode(object);
    if object.is_named() {
        return Ok(object);
    }
    Err(protocol_error("the object of an event has no name"))
}

/// `WatchEvent` of the API in JSON.
#[derive(Deserialize)]
struct JsonEvent<'a> {
    #[serde(rename = "type", borrow)]
    event_type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// `WatchEvent` of the API in protobuf.
#[derive(Clone, PartialEq, Message)]
struct ProtobufEvent {
    #[prost(string, tag = 1)]
    event_type: String,
    #[prost(message, required, tag = 2)]
    object: RawExtension,
}

/// `RawExtension` of the API: an object in its envelope.
#[derive(Clone, PartialEq, Message)]
struct RawExtension {
    #[prost(bytes = "bytes", tag = 1)]
    raw: Bytes,
}

/// Object of which only the metadata is decoded.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
struct BookmarkObject {
    #[prost(message, required, tag = 1)]
    metadata: Metadata,
}
