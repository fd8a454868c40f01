//! URIs and `Accept` headers of lists and watches.
//!
//! # Source
//!
//! KEP: kep.k8s.io/3157 (WatchList, or streaming lists)

use std::fmt::Write as _;
use std::time::Duration;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use kube::Resource as _;

use super::resource::{Resource, Selector};

/// Media type of protobuf.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Media type of JSON.
const JSON: &str = "application/json";

/// Encoding of objects in responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// About half of JSON's bytes, and a fraction of its work for server and client.
    #[default]
    Protobuf,
    /// Supported by every server.
    Json,
}

/// Kind of a request, on which the accepted media types depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// LIST, or a page of one.
    List,
    /// Watch or WatchList.
    Watch,
}

impl Encoding {
    /// Returns the first supported encoding in `types`, the media types that clients accept; JSON
    /// if there is none, as servers respond to clients that accept anything.
    pub fn preferred(types: &str) -> Self {
        types
            .split(',')
            .find_map(Self::of_media_type)
            .unwrap_or(Self::Json)
    }

    /// Returns the encoding of a media type, in any case; its parameters are ignored.
    fn of_media_type(media_type: &str) -> Option<Self> {
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case(PROTOBUF) {
            Some(Self::Protobuf)
        } else if essence.eq_ignore_ascii_case(JSON) {
            Some(Self::Json)
        } else {
            None
        }
    }

    /// Returns the `Accept` header. JSON is always accepted: an aggregated server may support
    /// nothing else.
    pub(super) fn accept(self, kind: RequestKind) -> &'static str {
        match (self, kind) {
            (Self::Protobuf, RequestKind::List) => {
                "application/vnd.kubernetes.protobuf,application/json"
            }
            (Self::Protobuf, RequestKind::Watch) => {
                "application/vnd.kubernetes.protobuf;stream=watch,application/json"
            }
            (Self::Json, _) => JSON,
        }
    }

    /// Returns the encoding of a body with these headers: JSON if they name none, and an error
    /// with the media type if it is unsupported.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, String> {
        let Some(found) = headers.get(CONTENT_TYPE) else {
            return Ok(Self::Json);
        };
        let text = String::from_utf8_lossy(found.as_bytes());
        if text.trim().is_empty() {
            return Ok(Self::Json);
        }
        Self::of_media_type(&text).ok_or_else(|| {
            let text = text.escape_debug();
            format!("unsupported Content-Type `{text}`: neither JSON nor protobuf")
        })
    }
}

/// Start of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchStart<'a> {
    /// The most recent state of all objects as events, and then changes.
    WatchList,
    /// The events after this resource version.
    Resume(&'a str),
}

/// Returns the URI of a page of a LIST.
///
/// Without `resourceVersion`, the server returns the most recent state, never one that is older
/// than the events that a watch has sent.
///
/// Differs from upstream: client-go starts with `resourceVersion=0`, any state in the cache of the
/// server, which may be older than the rules of this node.
pub(super) fn list_uri<K: Resource>(
    selector: &Selector<K>,
    limit: Option<u32>,
    continue_token: Option<&str>,
) -> String {
    let mut uri = base(selector);
    if let Some(limit) = limit {
        push(&mut uri, "limit", &limit.to_string());
    }
    if let Some(token) = continue_token {
        push(&mut uri, "continue", token);
    }
    uri
}

/// Returns the URI of a watch that the server ends after `timeout`. A WatchList has no
/// `resourceVersion`, like a LIST.
pub(super) fn watch_uri<K: Resource>(
    selector: &Selector<K>,
    start: WatchStart<'_>,
    timeout: Duration,
) -> String {
    let mut uri = base(selector);
    push(&mut uri, "watch", "true");
    push(&mut uri, "allowWatchBookmarks", "true");
    push(&mut uri, "timeoutSeconds", &timeout.as_secs().to_string());
    match start {
        WatchStart::WatchList => {
            push(&mut uri, "sendInitialEvents", "true");
            push(&mut uri, "resourceVersionMatch", "NotOlderThan");
        }
        WatchStart::Resume(version) => push(&mut uri, "resourceVersion", version),
    }
    uri
}

fn base<K: Resource>(selector: &Selector<K>) -> String {
    let mut uri = K::Typed::url_path(&(), None);
    if let Some(labels) = selector.labels {
        push(&mut uri, "labelSelector", labels);
    }
    if let Some(fields) = &selector.fields {
        push(&mut uri, "fieldSelector", fields);
    }
    uri
}

fn push(uri: &mut String, key: &str, value: &str) {
    uri.push(if uri.contains('?') { '&' } else { '?' });
    uri.push_str(key);
    uri.push('=');
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            _ => {
                // Writing to a String can't fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
}
