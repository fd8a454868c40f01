//! Sends requests and receives responses: checks the headers, and returns the body in pieces.
//!
//! Every wait for a response is in this file, and each one has a deadline.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use prost::Message;
use serde::{Deserialize, Deserializer, Serialize};
use tokio::time::{Instant, timeout, timeout_at};

use super::client::ApiClient;
use super::encoding::{Encoding, JSON, open_envelope};
use super::error::{ApiError, not_decodable, protocol_error};
use crate::telemetry::KubernetesVersion;

/// Maximum wait for the headers, and for each piece of a list. Servers limit requests other than
/// watches to 60 s themselves.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum wait that a server may ask for in `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Maximum bytes of a short body: of an error, of `/version`, or of the response to
/// [`send_object`]. The API sends a few hundred; anything larger is a web page.
const MAX_SHORT_BODY_BYTES: usize = 64 * 1024;

/// Maximum time of a short body. More is not worth a wait: the status is already known.
const SHORT_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Compression that all requests accept: none. gzip, which client-go accepts, saves three fifths of
/// the bytes of a list, and costs the server up to twice the CPU. When all nodes list at once, the
/// CPU of the API servers is exhausted before their network: `deploy/docs/api-server.md`.
const ACCEPTED_COMPRESSION: HeaderValue = HeaderValue::from_static("identity");

/// Body of a response, and its encoding.
pub(super) struct ApiResponse {
    body: Body,
    pub(super) encoding: Encoding,
    pub(super) date: Option<HeaderValue>,
}

impl ApiResponse {
    /// Sends a GET request that accepts these media types, and waits for the headers. If the server
    /// rejects them, the request is repeated with JSON.
    pub(super) async fn get(
        server: &ApiClient,
        accept: &'static str,
        uri: &str,
    ) -> Result<Self, ApiError> {
        match Self::get_as(server, accept, uri).await {
            Err(error) if accept != JSON && error.rejects_encoding() => {
                let (address, error) = (server.address(), error.in_full());
                tracing::debug!(
                    server = address,
                    error,
                    "protobuf rejected; requesting JSON"
                );
                Self::get_as(server, JSON, uri).await
            }
            result => result,
        }
    }

    /// Sends a GET request that accepts these media types, and waits for the headers.
    pub(super) async fn get_as(
        server: &ApiClient,
        accept: &'static str,
        uri: &str,
    ) -> Result<Self, ApiError> {
        let request = Request::get(uri)
            .header(ACCEPT, accept)
            .body(Body::empty())
            // Cannot happen: the URI and the headers are made here.
            .map_err(|error| ApiError::Connection(error.into()))?;
        Self::send(server, request).await
    }

    /// Sends any request, which accepts [`ACCEPTED_COMPRESSION`], and waits for the headers.
    pub(super) async fn send(
        server: &ApiClient,
        mut request: Request<Body>,
    ) -> Result<Self, ApiError> {
        let headers = request.headers_mut();
        headers.insert(ACCEPT_ENCODING, ACCEPTED_COMPRESSION);
        server.limiter.wait().await;
        let response = timeout(RESPONSE_TIMEOUT, server.client.send(request))
            .await
            .map_err(|_| ApiError::TimedOut(RESPONSE_TIMEOUT))?
            .map_err(|error| ApiError::Connection(error.into()))?;
        let (parts, body) = response.into_parts();
        let encoding = Encoding::of(&parts.headers);
        let uncompressed = expect_uncompressed(&parts.headers);
        let response = |encoding| Self {
            body,
            encoding,
            date: parts.headers.get(DATE).cloned(),
        };
        if parts.status.is_success() {
            uncompressed.map_err(protocol_error)?;
            return Ok(response(encoding.map_err(protocol_error)?));
        }
        // An error page of a proxy or of another server may have any media type. It fails to decode
        // as JSON, and is then quoted.
        let encoding = encoding.unwrap_or(Encoding::Json);
        let body = match uncompressed {
            Ok(()) => response(encoding).short_body().await,
            Err(unsupported) => unsupported.into_bytes(),
        };
        let status = Status::of_body(parts.status.as_u16(), encoding, body);
        Err(status.into_error(retry_after(&parts.headers)))
    }

    /// Returns the next piece of the body, or `None` if it ended cleanly.
    pub(super) async fn piece(&mut self, deadline: Instant) -> Result<Option<Bytes>, ApiError> {
        let began = Instant::now();
        loop {
            let frame = timeout_at(deadline, self.body.frame())
                .await
                .map_err(|_| ApiError::TimedOut(began.elapsed()))?;
            let Some(frame) = frame else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| ApiError::BodyAborted(error.into()))?;
            // Trailers are ignored.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// Appends the body to `body` up to its end, or to an error. Each piece may take
    /// [`RESPONSE_TIMEOUT`], and `count` is called with the size of each.
    pub(super) async fn read_to_end(
        &mut self,
        body: &mut Vec<u8>,
        deadline: Instant,
        mut count: impl FnMut(usize) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        loop {
            let now = Instant::now();
            if now >= deadline {
                return Err(protocol_error("timed out: the response is not complete"));
            }
            let Some(piece) = self.piece(deadline.min(now + RESPONSE_TIMEOUT)).await? else {
                return Ok(());
            };
            body.extend_from_slice(&piece);
            count(piece.len())?;
        }
    }

    /// Reads a short body, or its beginning if it exceeds [`MAX_SHORT_BODY_BYTES`] or
    /// [`SHORT_BODY_TIMEOUT`].
    pub(super) async fn short_body(mut self) -> Vec<u8> {
        let (mut body, mut bytes) = (Vec::new(), 0);
        let deadline = Instant::now() + SHORT_BODY_TIMEOUT;
        let count = |more: usize| {
            bytes += more;
            if bytes > MAX_SHORT_BODY_BYTES {
                return Err(protocol_error("the body exceeds 64 KiB"));
            }
            Ok(())
        };
        // After an error the beginning of the body is still useful as a message.
        let _ = self.read_to_end(&mut body, deadline, count).await;
        body
    }
}

/// Fails with the name of the compression if a body with these headers is compressed.
fn expect_uncompressed(headers: &HeaderMap) -> Result<(), String> {
    let found = headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
    let name = String::from_utf8_lossy(found.unwrap_or_default());
    match name.trim() {
        "" => Ok(()),
        name if name.eq_ignore_ascii_case("identity") => Ok(()),
        name => {
            let name = name.escape_debug();
            Err(format!("unsupported Content-Encoding `{name}`"))
        }
    }
}

/// Returns the wait in `Retry-After`; dates are ignored.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

/// Sends an object as JSON, and returns the response, whose body is short.
pub(crate) async fn send_object(
    server: &ApiClient,
    path: &str,
    object: &impl Serialize,
) -> Result<Vec<u8>, ApiError> {
    let json = serde_json::to_vec(object).map_err(|error| ApiError::Connection(error.into()))?;
    let request = Request::post(path)
        .header(ACCEPT, JSON)
        .header(CONTENT_TYPE, JSON)
        .body(Body::from(json))
        .map_err(|error| ApiError::Connection(error.into()))?;
    let response = ApiResponse::send(server, request).await?;
    // HTTP/1.1 can use the connection again only if the body was read.
    Ok(response.short_body().await)
}

/// Body of `/version`, trimmed to the field that is used.
///
/// Upstream: k8s.io/apimachinery/pkg/version/types.go, `Info` (v1.37)
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionResponse {
    git_version: String,
}

/// Requests the version of the API server, which every user may read.
pub(crate) async fn server_version(server: &ApiClient) -> Result<KubernetesVersion, ApiError> {
    let response = ApiResponse::get_as(server, JSON, "/version").await?;
    let body = response.short_body().await;
    let info: VersionResponse = serde_json::from_slice(&body).map_err(not_decodable)?;
    let version = KubernetesVersion::parse(&info.git_version);
    version.ok_or_else(|| not_decodable("`gitVersion` is not a valid version"))
}

/// Maximum characters of a server's message that are quoted.
const MAX_QUOTED_CHARS: usize = 300;

/// `Status` of the API: the body of an error, and the object of an ERROR event.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    #[prost(int32, tag = 6)]
    code: i32,
    #[prost(string, tag = 4)]
    reason: String,
    /// Not always UTF-8. Only quoted, never parsed.
    #[serde(deserialize_with = "text_bytes")]
    #[prost(bytes = "vec", tag = 3)]
    message: Vec<u8>,
}

fn text_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    String::deserialize(deserializer).map(String::into_bytes)
}

impl Status {
    /// Decodes the body of an error with this code. A body that is not a `Status`, such as a page
    /// of a proxy, becomes the message.
    pub(super) fn of_body(code: u16, encoding: Encoding, body: Vec<u8>) -> Self {
        let body = Bytes::from(body);
        let mut status = match encoding {
            Encoding::Json => serde_json::from_slice(&body).unwrap_or_default(),
            Encoding::Protobuf => open_envelope(body.clone())
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
        let message: String = message.chars().take(MAX_QUOTED_CHARS).collect();
        // An ERROR event may lack the code, but has the reason.
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
