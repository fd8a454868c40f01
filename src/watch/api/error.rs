//! Errors of lists, watches and writes.
//!
//! The variants separate what [`retry`](super::retry) has to tell apart; its table has the next
//! request for each.

use std::error::Error;
use std::fmt::{Display, Write as _};
use std::time::Duration;

use tower::BoxError;

use super::connect_failure::ConnectFailure;

/// Failure of a request to the API server, or of its response.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// 410 Gone: the server no longer has the events after the resource version, or the snapshot
    /// of the continue token.
    #[error("410 Gone: resourceVersion or continue token expired: {message}")]
    Expired {
        /// Message of the server.
        message: String,
    },
    /// The server responded with an error, or sent an ERROR event.
    #[error("the server responded with {}: {message}", status_text(*.code, .reason))]
    Status {
        /// HTTP status; 0 if an ERROR event has none.
        code: u16,
        /// Reason of the API's `Status`, possibly empty.
        reason: String,
        /// Message of the server.
        message: String,
        /// Minimum wait before the next request, if the server sent `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The server sent nothing for this long, and the request was aborted.
    #[error("timed out: the server sent nothing for {} s", _0.as_secs())]
    TimedOut(Duration),
    /// Several requests together exceeded the deadline of the caller. Never an error of a single
    /// request.
    #[error("timed out: the lists are not complete after {} s", _0.as_secs())]
    DeadlineExceeded(Duration),
    /// There was no connection, or it ended before there was a response: nothing is known about
    /// how the server would have responded.
    #[error("the connection failed")]
    Connection(#[source] BoxError),
    /// The response began and was cut off. An intermediary may cut this response off each time.
    #[error("the response was cut off")]
    Broken(#[source] BoxError),
    /// A watch ended in order, within 5 s and without an event; client-go calls it the same.
    #[error("very short watch: ended within 5 s without an event")]
    VeryShortWatch,
    /// The server sent a response over a working connection that cannot be used: it violates the
    /// API, lacks its end, exceeds a limit, or is not complete in time. The same request may bring
    /// it again.
    #[error("{0}")]
    ProtocolError(String),
}

/// Returns code and reason, each only if there is one.
fn status_text(code: u16, reason: &str) -> String {
    match (code, reason) {
        (0, "") => "an error without a code".to_owned(),
        (0, reason) => reason.to_owned(),
        (code, "") => code.to_string(),
        (code, reason) => format!("{code} {reason}"),
    }
}

impl ApiError {
    /// Reports whether a paged LIST follows at once if a WatchList fails like this.
    ///
    /// Not so if the server rejects the credentials, does not know the kind, or is busy; nor if
    /// there was no response. Timeouts count, and so does a stream that cannot be decoded or ends
    /// too early: some servers never send the final bookmark.
    pub(super) fn falls_back_to_paged_list(&self) -> bool {
        match self {
            Self::Status { code, .. } => {
                (400..500).contains(code) && !matches!(code, 401 | 403 | 404 | 408 | 429)
                    || *code == 501
            }
            Self::TimedOut(_) | Self::DeadlineExceeded(_) | Self::ProtocolError(_) => true,
            Self::Expired { .. } | Self::Connection(_) | Self::Broken(_) | Self::VeryShortWatch => {
                false
            }
        }
    }

    /// Reports whether the failure counts toward the maximum after which another request is tried:
    /// the same request may fail in the same way for ever. A busy server, rejected credentials and
    /// the lack of a connection are temporary, and no other request would help.
    pub(super) fn counts_toward_relist(&self) -> bool {
        match self {
            Self::Status { code, .. } => !matches!(code, 401 | 403 | 429 | 502 | 503),
            Self::Connection(_) => false,
            Self::Expired { .. }
            | Self::TimedOut(_)
            | Self::DeadlineExceeded(_)
            | Self::Broken(_)
            | Self::VeryShortWatch
            | Self::ProtocolError(_) => true,
        }
    }

    /// Reports whether the server supports none of the encodings that the request accepts.
    pub(super) fn rejects_encoding(&self) -> bool {
        matches!(self.status(), Some(406 | 415))
    }

    /// Returns the error with all its causes, in one line.
    pub fn in_full(&self) -> String {
        match ConnectFailure::find(self) {
            Some(failure) => failure.to_string(),
            None => with_causes(self),
        }
    }

    /// Returns the HTTP status, 0 for an ERROR event without one, or `None` if the server sent no
    /// error.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            Self::Expired { .. } => Some(GONE),
            Self::TimedOut(_)
            | Self::DeadlineExceeded(_)
            | Self::Connection(_)
            | Self::Broken(_)
            | Self::VeryShortWatch
            | Self::ProtocolError(_) => None,
        }
    }

    /// Returns the wait that the server asked for, or zero.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Status { retry_after, .. } => retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
}

/// HTTP status of expired resource versions and continue tokens.
const GONE: u16 = 410;

/// Returns an error with all its causes in one line. A cause that its error quotes already is not
/// repeated.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.ends_with(&message) {
            // Writing to a String can't fail.
            let _ = write!(text, ": {message}");
        }
        source = cause.source();
    }
    text
}

/// Returns the error for a response that is incomplete, exceeds a limit, or violates the API in a
/// way that `problem` names by itself.
pub(super) fn protocol_error(problem: impl Into<String>) -> ApiError {
    ApiError::ProtocolError(problem.into())
}

/// Returns the error for bytes that are not what the API has at this place.
pub(super) fn not_decodable(cause: impl Display) -> ApiError {
    ApiError::ProtocolError(format!("the response cannot be decoded: {cause}"))
}
