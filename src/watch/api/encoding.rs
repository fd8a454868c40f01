//! The two encodings that an API server is read in.
//!
//! Apart because one is asked for and the other may come back: what an answer is in, its headers
//! say, and nobody has to remember what was asked.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// The media type of protobuf.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What objects are encoded as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// About half of JSON's bytes, and a fraction of its work for server and client.
    #[default]
    Protobuf,
    /// What every server speaks.
    Json,
}

/// What is asked for.
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
        let known = |entry: &str| match media_type(entry) {
            PROTOBUF => Some(Self::Protobuf),
            "application/json" => Some(Self::Json),
            _ => None,
        };
        types.split(',').find_map(known).unwrap_or(Self::Json)
    }

    /// The header that asks for it. JSON is always welcome: an aggregated server may have nothing
    /// else.
    pub(super) fn accept(self, asked: Asked) -> &'static str {
        match (self, asked) {
            (Self::Protobuf, Asked::List) => "application/vnd.kubernetes.protobuf,application/json",
            (Self::Protobuf, Asked::Watch) => {
                "application/vnd.kubernetes.protobuf;stream=watch,application/json"
            }
            (Self::Json, _) => "application/json",
        }
    }

    /// The one that a body with these headers is in.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let found = headers
            .get(CONTENT_TYPE)
            .and_then(|text| text.to_str().ok());
        match found.map(media_type) {
            Some(PROTOBUF) => Self::Protobuf,
            _ => Self::Json,
        }
    }
}

/// Without parameters.
fn media_type(entry: &str) -> &str {
    entry.split(';').next().unwrap_or_default().trim()
}
