//! Why a list or a watch ended early.
//!
//! Apart because what follows differs: list again, ask in another way, or wait and go on.

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use tower::BoxError;

/// What went wrong between us and the API server.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server no longer knows the point to go on from: everything must be listed again.
    #[error("the resource version is too old: {message}")]
    Expired {
        /// The server's words.
        message: String,
    },
    /// The server answered, with an error.
    #[error("the server answered {code} {reason}: {message}")]
    Status {
        /// The HTTP status.
        code: u16,
        /// The API's reason, possibly empty.
        reason: String,
        /// The server's words.
        message: String,
        /// When to come back at the earliest, if the server said so.
        retry_after: Option<Duration>,
    },
    /// Nothing came for so long that nothing is expected any more.
    #[error("the server was silent for {} s", _0.as_secs())]
    Silent(Duration),
    /// There was no connection, or it ended before there was an answer: nothing is known of what
    /// the server would have answered.
    #[error("the connection failed")]
    Connection(#[source] BoxError),
    /// The answer began and broke off. Something on the way may do that to this answer each time.
    #[error("the answer broke off")]
    Broken(#[source] BoxError),
    /// The answer came, and is not what the API says: asking again may bring the same bytes.
    #[error("the answer cannot be read")]
    Malformed(#[source] BoxError),
}

impl ApiError {
    /// Whether another way of listing may be accepted where this one was not.
    ///
    /// Not so if the server doesn't let us in, doesn't know the kind, or is busy; nor if there was
    /// no answer. Silence counts, and a stream that cannot be read or ends too early: some servers
    /// never send the end of the list.
    pub(super) fn is_about_the_request(&self) -> bool {
        match self {
            Self::Status { code, .. } => {
                (400..500).contains(code) && !matches!(code, 401 | 403 | 404 | 408 | 429)
                    || *code == 501
            }
            Self::Silent(_) | Self::Malformed(_) => true,
            Self::Expired { .. } | Self::Connection(_) | Self::Broken(_) => false,
        }
    }

    /// Reports whether the same request may fail in the same way for ever. Being busy or not
    /// letting the client in passes, and so does the lack of a connection: a list would not help.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            Self::Status { code, .. } => !matches!(code, 401 | 403 | 429 | 502 | 503),
            Self::Connection(_) => false,
            Self::Expired { .. } | Self::Silent(_) | Self::Broken(_) | Self::Malformed(_) => true,
        }
    }

    /// Whether the server can't say it in any of the encodings that were asked for.
    pub(super) fn is_about_the_encoding(&self) -> bool {
        matches!(self.status(), Some(406 | 415))
    }

    /// With all its causes, in one line.
    pub fn in_full(&self) -> String {
        chain(self)
    }

    /// Whether the server was there and did not like the answerable part of the request.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            Self::Expired { .. } => Some(GONE),
            Self::Silent(_) | Self::Connection(_) | Self::Broken(_) | Self::Malformed(_) => None,
        }
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Status { retry_after, .. } => retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
}

/// The status of expired resource versions and continue tokens.
const GONE: u16 = 410;

/// An error with all its causes in one line, each said once.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.ends_with(&words) {
            // Writing to a String can't fail.
            let _ = write!(text, ": {words}");
        }
        source = cause.source();
    }
    text
}

/// A problem with bytes that came over a connection which itself works.
pub(super) fn malformed(problem: impl Into<BoxError>) -> ApiError {
    ApiError::Malformed(problem.into())
}
