//! The two encodings that an API server is read in.
//!
//! One is asked for and the other may come back: the headers of an answer say which it is in.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// The media type of protobuf.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The media type of JSON.
const JSON: &str = "application/json";

/// What objects are encoded as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// About half of JSON's bytes, and a fraction of its work for server and client.
    #[default]
    Protobuf,
    /// What every server speaks.
    Json,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// A list, or a page of one.
    List,
    /// A stream of events.
    Watch,
}

impl Encoding {
    /// The one that comes first in `types`, media types as clients accept them; JSON if neither
    /// is there, which is what servers give to those who accept anything.
    pub fn preferred(types: &str) -> Self {
        types.split(',').find_map(Self::named).unwrap_or(Self::Json)
    }

    /// The one that a media type names, in capitals or not; its parameters do not matter.
    fn named(media_type: &str) -> Option<Self> {
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case(PROTOBUF) {
            Some(Self::Protobuf)
        } else if essence.eq_ignore_ascii_case(JSON) {
            Some(Self::Json)
        } else {
            None
        }
    }

    /// The header that asks for it. JSON is always welcome: an aggregated server may have nothing
    /// else.
    pub(super) fn accept(self, asked: Asked) -> &'static str {
        match (self, asked) {
            (Self::Protobuf, Asked::List) => "application/vnd.kubernetes.protobuf,application/json",
            (Self::Protobuf, Asked::Watch) => {
                "application/vnd.kubernetes.protobuf;stream=watch,application/json"
            }
            (Self::Json, _) => JSON,
        }
    }

    /// The one that a body with these headers is in: JSON if they do not say, and an error that
    /// names the type if it is another.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, String> {
        let Some(found) = headers.get(CONTENT_TYPE) else {
            return Ok(Self::Json);
        };
        let text = String::from_utf8_lossy(found.as_bytes());
        if text.trim().is_empty() {
            return Ok(Self::Json);
        }
        Self::named(&text).ok_or_else(|| {
            let text = text.escape_debug();
            format!("its type is `{text}`, not JSON or protobuf")
        })
    }
}
