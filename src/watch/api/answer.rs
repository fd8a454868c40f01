//! One request and its answer: headers judged, body in pieces.
//!
//! Apart because every wait for the peer is here, and so every limit to waiting.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, RETRY_AFTER};
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use tokio::time::timeout;

use super::client::ApiServer;
use super::error::ApiError;

/// How long a server may think before the headers, and between two pieces of a list. Its own
/// limit for requests that are not watches is 60 s.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A server that asks for more is not believed.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Error bodies are a few hundred bytes; more than this is someone's web page.
const LONGEST_ERROR: usize = 64 * 1024;

/// Characters of a server's message that go into ours.
const LONGEST_MESSAGE: usize = 300;

/// A body whose status was 200.
pub(super) struct Answer {
    body: Body,
}

impl Answer {
    /// Sends a GET and waits for its headers.
    pub(super) async fn to(server: &ApiServer, uri: &str) -> Result<Self, ApiError> {
        let request = Request::get(uri)
            .header(ACCEPT, "application/json")
            .header(ACCEPT_ENCODING, "identity")
            .body(Body::empty())
            .map_err(|error| ApiError::Connection(error.into()))?;
        let response = timeout(PATIENCE, server.client().send(request))
            .await
            .map_err(|_| ApiError::Silent(PATIENCE))?
            .map_err(|error| ApiError::Connection(error.into()))?;
        let (parts, body) = response.into_parts();
        let answer = Self { body };
        if parts.status.is_success() {
            return Ok(answer);
        }
        let body = answer.beginning().await;
        let mut status: Status = serde_json::from_slice(&body).unwrap_or_default();
        if status.message.is_empty() {
            String::from_utf8_lossy(&body)
                .trim()
                .clone_into(&mut status.message);
        }
        status.code = parts.status.as_u16();
        Err(status.into_error(retry_after(&parts.headers)))
    }

    /// The next piece, or `None` at the orderly end.
    pub(super) async fn piece(&mut self, patience: Duration) -> Result<Option<Bytes>, ApiError> {
        loop {
            let frame = timeout(patience, self.body.frame())
                .await
                .map_err(|_| ApiError::Silent(patience))?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(ApiError::Connection(error.into())),
                // Trailers are of no interest.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// As much of an error's body as is worth having.
    async fn beginning(mut self) -> Vec<u8> {
        let mut body = Vec::new();
        while let Ok(Some(piece)) = self.piece(PATIENCE).await {
            body.extend_from_slice(&piece);
            if body.len() > LONGEST_ERROR {
                break;
            }
        }
        body
    }
}

/// The API's `Status`, as the body of an error or as the object of an ERROR event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    code: u16,
    reason: String,
    message: String,
}

impl Status {
    pub(super) fn into_error(self, retry_after: Option<Duration>) -> ApiError {
        let message: String = self.message.chars().take(LONGEST_MESSAGE).collect();
        // The code of a status may be absent inside a stream; the reason is not.
        if self.code == 410 || matches!(self.reason.as_str(), "Expired" | "Gone") {
            return ApiError::Expired { message };
        }
        ApiError::Status {
            code: self.code,
            reason: self.reason,
            message,
            retry_after,
        }
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER))
}
