//! One request and its answer: headers judged, body in pieces.
//!
//! Every wait for the peer is here, and so every limit to waiting.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, RETRY_AFTER};
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::{Instant, timeout, timeout_at};

use super::client::ApiServer;
use super::encoding::{Asked, Encoding};
use super::error::{ApiError, malformed};
use super::status::Status;

/// How long a server may think before the headers, and between two pieces of a list. Its own
/// limit for requests that are not watches is 60 s.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A server that asks for more is not believed.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Error bodies are a few hundred bytes; more than this is someone's web page.
const LONGEST_ERROR: usize = 64 * 1024;

/// Time for the body of an error, however slowly it comes: its code is known already.
const ERROR_DEADLINE: Duration = Duration::from_secs(10);

/// A body whose status was 200.
pub(super) struct Answer {
    body: Body,
    encoding: Encoding,
}

/// Says that an answer is compressed; `None` if it is not.
fn compression(headers: &HeaderMap) -> Option<String> {
    let found = headers.get(CONTENT_ENCODING)?;
    let name = String::from_utf8_lossy(found.as_bytes());
    let name = name.trim();
    (!name.is_empty() && !name.eq_ignore_ascii_case("identity")).then(|| {
        let name = name.escape_debug();
        format!("it is compressed (`{name}`), which was not asked for")
    })
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
        let (encoding, compression) = (Encoding::of(&parts.headers), compression(&parts.headers));
        if parts.status.is_success() {
            if let Some(compression) = compression {
                return Err(malformed(compression));
            }
            let encoding = encoding.map_err(malformed)?;
            return Ok(Self { body, encoding });
        }
        // An error of unknown type may be any program's, and is quoted as it is.
        let encoding = encoding.unwrap_or(Encoding::Json);
        let answer = Self { body, encoding };
        let body = match compression {
            Some(compression) => compression.into_bytes(),
            None => answer.beginning().await,
        };
        let status = Status::of_body(parts.status.as_u16(), encoding, body);
        Err(status.into_error(retry_after(&parts.headers)))
    }

    /// What the body is in.
    pub(super) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The next piece, or `None` at the orderly end; [`ApiError::Silent`] if none came in time.
    pub(super) async fn piece(&mut self, deadline: Instant) -> Result<Option<Bytes>, ApiError> {
        let began = Instant::now();
        loop {
            let frame = timeout_at(deadline, self.body.frame())
                .await
                .map_err(|_| ApiError::Silent(began.elapsed()))?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(ApiError::Broken(error.into())),
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
        let deadline = Instant::now() + ERROR_DEADLINE;
        while let Ok(Some(piece)) = self.piece(deadline).await {
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
