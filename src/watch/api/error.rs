//! Errors of lists, watches and writes.
//!
//! Each variant leads to another reaction of the reflector: list again, ask in another form, or
//! wait and resume.

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use tower::BoxError;

/// Failure of a request to the API server, or of its response.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server no longer has the resource version or continue token: everything must be listed
    /// again.
    #[error("the resource version is too old: {message}")]
    Expired {
        /// Message of the server.
        message: String,
    },
    /// The server responded with an error.
    #[error("the server answered {code} {reason}: {message}")]
    Status {
        /// HTTP status.
        code: u16,
        /// Reason of the API's `Status`, possibly empty.
        reason: String,
        /// Message of the server.
        message: String,
        /// Shortest wait before the next request, if the server sent `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The server sent nothing for this long, and the request was aborted.
    #[error("timed out: the server sent nothing for {} s", _0.as_secs())]
    TimedOut(Duration),
    /// There was no connection, or it ended before there was a response: nothing is known about
    /// how the server would have responded.
    #[error("the connection failed")]
    Connection(#[source] BoxError),
    /// The response began and was cut off. An intermediary may cut this response off each time.
    #[error("the response was cut off")]
    Broken(#[source] BoxError),
    /// The response is complete and violates the API: another request may bring the same bytes.
    #[error("the response cannot be decoded")]
    Malformed(#[source] BoxError),
}

impl ApiError {
    /// Reports whether another way of listing may be accepted where this one was not.
    ///
    /// Not so if the server rejects the credentials, does not know the kind, or is busy; nor if
    /// there was no response. Timeouts count, and so does a stream that cannot be decoded or ends
    /// too early: some servers never send the end of the list.
    pub(super) fn is_about_the_request(&self) -> bool {
        match self {
            Self::Status { code, .. } => {
                (400..500).contains(code) && !matches!(code, 401 | 403 | 404 | 408 | 429)
                    || *code == 501
            }
            Self::TimedOut(_) | Self::Malformed(_) => true,
            Self::Expired { .. } | Self::Connection(_) | Self::Broken(_) => false,
        }
    }

    /// Reports whether the same request may fail in the same way for ever. A busy server,
    /// rejected credentials and the lack of a connection are temporary: a list would not help.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            Self::Status { code, .. } => !matches!(code, 401 | 403 | 429 | 502 | 503),
            Self::Connection(_) => false,
            Self::Expired { .. } | Self::TimedOut(_) | Self::Broken(_) | Self::Malformed(_) => true,
        }
    }

    /// Reports whether the server supports none of the encodings that the request accepts.
    pub(super) fn is_about_the_encoding(&self) -> bool {
        matches!(self.status(), Some(406 | 415))
    }

    /// Returns the error with all its causes, in one line.
    pub fn in_full(&self) -> String {
        with_causes(self)
    }

    /// Returns the HTTP status, or `None` if the error is not one that the server sent.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            Self::Expired { .. } => Some(GONE),
            Self::TimedOut(_) | Self::Connection(_) | Self::Broken(_) | Self::Malformed(_) => None,
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

/// Returns an error about bytes that came over a connection which itself works.
pub(super) fn malformed(problem: impl Into<BoxError>) -> ApiError {
    ApiError::Malformed(problem.into())
}
