//! The API's `Status`: the body of an error, and the object of an ERROR event.
//!
//! Both kinds of answer end in one, and it decides which error that is.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use serde::{Deserialize, Deserializer};

use super::encoding::Encoding;
use super::envelope;
use super::error::ApiError;

/// Characters of a server's message that go into ours.
const LONGEST_WORDS: usize = 300;

/// The API's `Status`.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    #[prost(int32, tag = 6)]
    code: i32,
    #[prost(string, tag = 4)]
    reason: String,
    /// For people, and not always UTF-8: what is used of a status does not depend on it.
    #[serde(deserialize_with = "text")]
    #[prost(bytes = "vec", tag = 3)]
    message: Vec<u8>,
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    String::deserialize(deserializer).map(String::into_bytes)
}

impl Status {
    /// The body of an answer with this code, which may be anybody's: what is no status becomes
    /// the message of one.
    pub(super) fn of_body(code: u16, encoding: Encoding, body: Vec<u8>) -> Self {
        let body = Bytes::from(body);
        let mut status = match encoding {
            Encoding::Json => serde_json::from_slice(&body).unwrap_or_default(),
            Encoding::Protobuf => envelope::open(body.clone())
                .ok()
                .and_then(|(_, message)| Self::decode(message).ok())
                .unwrap_or_default(),
        };
        if status.message.is_empty() {
            status.message = body.trim_ascii().to_vec();
        }
        status.code = code.into();
        status
    }

    pub(super) fn into_error(self, retry_after: Option<Duration>) -> ApiError {
        let message = String::from_utf8_lossy(&self.message);
        let message: String = message.chars().take(LONGEST_WORDS).collect();
        // The code of a status may be absent inside a stream; the reason is not.
        if self.code == 410 || matches!(self.reason.as_str(), "Expired" | "Gone") {
            return ApiError::Expired { message };
        }
        ApiError::Status {
            code: u16::try_from(self.code).unwrap_or_default(),
            reason: self.reason,
            message,
            retry_after,
        }
    }
}
