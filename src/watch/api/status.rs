//! The API's `Status`: the body of an error, and the object of an ERROR event.
//!
//! Apart because both kinds of answer end in one, and it decides which error that is.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use serde::Deserialize;

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
    #[prost(string, tag = 3)]
    message: String,
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
                .and_then(|message| Self::decode(message).ok())
                .unwrap_or_default(),
        };
        if status.message.is_empty() {
            String::from_utf8_lossy(&body)
                .trim()
                .clone_into(&mut status.message);
        }
        status.code = code.into();
        status
    }

    pub(super) fn into_error(self, retry_after: Option<Duration>) -> ApiError {
        let message: String = self.message.chars().take(LONGEST_WORDS).collect();
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
