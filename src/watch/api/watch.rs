//! One watch, from its request to its end.
//!
//! Apart because the wire's events, and what of them is trusted, are told here once.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::answer::{Answer, Status};
use super::client::ApiServer;
use super::error::{ApiError, malformed};
use super::kind::{Kind, Selector};
use super::line::Lines;
use super::object::Object;
use super::request::{self, Start};

/// How much longer than the server's own limit a watch may last.
const GRACE: Duration = Duration::from_secs(30);

/// Says on a bookmark that the state sent at first is now complete.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// One event of a watch.
pub(super) enum Event<K> {
    /// It exists and is this.
    Set(Object<K>),
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

/// An open watch.
pub(super) struct Watch {
    lines: Lines,
    opened: Instant,
    deadline: Instant,
}

impl Watch {
    /// Asks, and waits for a favorable answer.
    pub(super) async fn open<K: Kind>(
        server: &ApiServer,
        selector: &Selector<K>,
        start: Start<'_>,
        lasting: Duration,
    ) -> Result<Self, ApiError> {
        let uri = request::watch(selector, start, lasting);
        let lines = Lines::of(Answer::to(server, &uri).await?);
        let opened = Instant::now();
        let deadline = opened + lasting + GRACE;
        Ok(Self {
            lines,
            opened,
            deadline,
        })
    }

    /// How long it has been open.
    pub(super) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// The next event, or `None` at the end. [`ApiError::Silent`] if none came for `patience`, or
    /// if the server let its own time limit pass.
    pub(super) async fn next<K: Kind>(
        &mut self,
        patience: Duration,
    ) -> Result<Option<Event<K>>, ApiError> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let Some(line) = self.lines.next(patience.min(left)).await? else {
                return Ok(None);
            };
            if let Some(event) = read(&line)? {
                return Ok(Some(event));
            }
        }
    }
}

/// `None` for an empty line, and for events of a kind that is not known.
fn read<K: Kind>(line: &Bytes) -> Result<Option<Event<K>>, ApiError> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let Line { kind, object } = serde_json::from_slice(line)
        .map_err(|_| malformed("a line of a watch is cut off or not JSON"))?;
    match kind.as_ref() {
        "ADDED" | "MODIFIED" => Ok(Some(Event::Set(Object::read(object)))),
        "DELETED" => Ok(Some(Event::Gone(Object::read(object)))),
        "BOOKMARK" => Ok(Some(Event::Bookmark(bookmark(object)?))),
        "ERROR" => {
            let status: Status = serde_json::from_str(object.get()).unwrap_or_default();
            Err(status.into_error(None))
        }
        _ => Ok(None),
    }
}

fn bookmark(object: &RawValue) -> Result<Bookmark, ApiError> {
    let BookmarkObject { metadata } = serde_json::from_str(object.get())
        .map_err(|_| malformed("a bookmark has no resource version"))?;
    let end = metadata.annotations.unwrap_or_default();
    Ok(Bookmark {
        resource_version: metadata.resource_version,
        ends_initial: end
            .get(INITIAL_EVENTS_END)
            .is_some_and(|value| value == "true"),
    })
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct BookmarkObject {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}
