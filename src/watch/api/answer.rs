//! One request and its answer: headers judged, body in pieces.
//!
//! Apart because every wait for the peer is here, and so every limit to waiting.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, RETRY_AFTER};
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::timeout;

use super::client::ApiServer;
use super::encoding::{Asked, Encoding};
use super::error::ApiError;
use super::status::Status;

/// How long a server may think before the headers, and between two pieces of a list. Its own
/// limit for requests that are not watches is 60 s.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A server that asks for more is not believed.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Error bodies are a few hundred bytes; more than this is someone's web page.
const LONGEST_ERROR: usize = 64 * 1024;

/// A body whose status was 200.
pub(super) struct Answer {
    body: Body,
    encoding: Encoding,
}

impl Answer {
    /// Sends a GET and waits for its headers. A server that refuses what objects are to be
    /// encoded as is asked for JSON.
    pub(super) async fn to(server: &ApiServer, asked: Asked, uri: &str) -> Result<Self, ApiError> {
        let encoding = server.encoding();
        match Self::try_to(server, encoding.accept(asked), uri).await {
            Err(error) if encoding != Encoding::Json && error.is_about_the_encoding() => {
                Self::try_to(server, Encoding::Json.accept(asked), uri).await
            }
            answer => answer,
        }
    }

    async fn try_to(server: &ApiServer, accept: &'static str, uri: &str) -> Result<Self, ApiError> {
        let request = Request::get(uri)
            .header(ACCEPT, accept)
            .header(ACCEPT_ENCODING, "identity")
            .body(Body::empty())
            .map_err(|error| ApiError::Connection(error.into()))?;
        Self::of(server, request).await
    }

    /// Sends any request and waits for its headers.
    pub(super) async fn of(server: &ApiServer, request: Request<Body>) -> Result<Self, ApiError> {
        let turn = server.turn().await;
        let response = timeout(PATIENCE, server.client().send(request))
            .await
            .map_err(|_| ApiError::Silent(PATIENCE))?
            .map_err(|error| ApiError::Connection(error.into()))?;
        turn.answered();
        let (parts, body) = response.into_parts();
        let encoding = Encoding::of(&parts.headers);
        let answer = Self { body, encoding };
        if parts.status.is_success() {
            return Ok(answer);
        }
        let code = parts.status.as_u16();
        let status = Status::of_body(code, encoding, answer.beginning().await);
        Err(status.into_error(retry_after(&parts.headers)))
    }

    /// What the body is in.
    pub(super) fn encoding(&self) -> Encoding {
        self.encoding
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
    pub(super) async fn beginning(mut self) -> Vec<u8> {
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

pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER))
}
