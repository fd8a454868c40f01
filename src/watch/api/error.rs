//! Errors of requests, and those causes of a failed connection that an operator can mend.
//!
//! [`retry`](super::retry) chooses the next request by the variant of the error.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use kube::client::AuthError;
use kube::config::InClusterError;
use tokio_rustls::rustls as tls;
use tower::BoxError;

use crate::telemetry::with_causes;
use crate::text::quoted;

/// Failure of a request to the API server, or of its response.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// 410 Gone: the server no longer has the events after the resource version, or the snapshot
    /// of the continue token.
    #[error("410 Gone: resourceVersion or continue token expired: {message}")]
    Expired { message: String },
    /// The server responded with an error, or sent an ERROR event.
    #[error("the server responded with {}: {message}", status_text(*.code, .reason))]
    Status {
        /// HTTP status; 0 if an ERROR event has none.
        code: u16,
        /// Reason of the API's `Status`, possibly empty.
        reason: String,
        message: String,
        /// Minimum wait before the next request, if the server sent `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// Headers, the next piece of a body or the next event did not come in time, or the server did
    /// not end a watch in time; the request was aborted. With the time of the wait, or the age of
    /// the watch.
    #[error("timed out after {} s", _0.as_secs())]
    TimedOut(Duration),
    /// Several requests together exceeded the deadline of the caller. Never an error of a single
    /// request.
    #[error("timed out: the lists are not complete after {} s", _0.as_secs_f64())]
    DeadlineExceeded(Duration),
    /// There was no connection, or it ended before there was a response: nothing is known about
    /// how the server would have responded.
    #[error("the connection failed")]
    Connection(#[source] BoxError),
    /// The connection failed within the body of a response. That may happen each time, if an
    /// intermediary limits the time of a response.
    #[error("the body of the response was aborted")]
    BodyAborted(#[source] BoxError),
    /// A watch ended cleanly, within 5 s and without an event (other than initial ones). Named as
    /// in client-go.
    #[error("very short watch: ended within 5 s without an event other than initial ones")]
    VeryShortWatch,
    /// The connection works, but the response cannot be used: it violates the API, lacks its end,
    /// exceeds a limit, or is not complete in time. The same request may get it again.
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
    /// Reports whether a LIST follows without a delay if a WatchList fails with this error.
    ///
    /// False if the server rejects the credentials (401, 403), does not serve the objects (404) or
    /// is busy (408, 429), and if the connection or the body failed: after a body that failed, a
    /// LIST follows with a delay. True after a timeout, also if no headers came within 60 s: some
    /// servers hang on a WatchList. True for a stream that cannot be decoded or ends too early:
    /// some servers never send the final bookmark.
    pub(super) fn falls_back_to_list_at_once(&self) -> bool {
        match self {
            Self::Status { code, .. } => {
                (400..500).contains(code) && !matches!(code, 401 | 403 | 404 | 408 | 429)
                    || *code == 501
            }
            Self::TimedOut(_) | Self::DeadlineExceeded(_) | Self::ProtocolError(_) => true,
            Self::Expired { .. }
            | Self::Connection(_)
            | Self::BodyAborted(_)
            | Self::VeryShortWatch => false,
        }
    }

    /// Reports whether a WatchList or a watch that failed with this error counts toward the maximum
    /// after which another kind of request is tried, as this kind may never work. False for
    /// rejected credentials (401, 403), a busy or absent server (429, 502, 503) and a failed
    /// connection: other requests would fail as well.
    pub(super) fn counts_toward_max_failures(&self) -> bool {
        match self {
            Self::Status { code, .. } => !matches!(code, 401 | 403 | 429 | 502 | 503),
            Self::Connection(_) => false,
            Self::Expired { .. }
            | Self::TimedOut(_)
            | Self::DeadlineExceeded(_)
            | Self::BodyAborted(_)
            | Self::VeryShortWatch
            | Self::ProtocolError(_) => true,
        }
    }

    /// Reports whether the server rejects the `Accept` header. Some servers do although it has JSON
    /// as well, because they do not know protobuf.
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
            _ => None,
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

/// Returns the error of a response that is incomplete, exceeds a limit, or violates the API.
pub(super) fn protocol_error(problem: impl Into<String>) -> ApiError {
    ApiError::ProtocolError(problem.into())
}

pub(super) fn not_decodable(cause: impl Display) -> ApiError {
    ApiError::ProtocolError(format!("the response cannot be decoded: {cause}"))
}

/// Configuration that no client can be built from, found before a connection is opened.
#[derive(Debug, thiserror::Error)]
pub enum ClientConfigError {
    /// The kubeconfig cannot be read, or is invalid.
    #[error("cannot read kubeconfig {}", quoted(paths.iter().map(|path| path.display())))]
    Kubeconfig {
        /// Paths of the kubeconfig, and of those that it is merged with.
        paths: Vec<PathBuf>,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Neither a kubeconfig nor an address is set, and the process does not run in a Pod with a
    /// usable service account; the cause names the missing variable or file.
    #[error("no source of Services: not running in a Pod with a usable service account")]
    InCluster(#[source] Box<InClusterError>),
    /// The address is not a URL or host.
    #[error("`{0}` is not a valid API server address")]
    Address(String),
    /// The credentials cannot be used: a file of a token, certificate or key is missing or invalid,
    /// or the credential plugin failed.
    #[error("cannot use the credentials for `{address}`")]
    Credentials {
        address: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Cause of a failed connection other than a server that is down. An operator acts differently on
/// each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectFailure {
    /// The credential plugin of the kubeconfig failed.
    #[error("the credential plugin of the kubeconfig failed: {0}")]
    CredentialPlugin(String),
    /// The certificate of the server has expired, is for another name, or was not signed by the
    /// certificate authority of the configuration.
    #[error("the certificate of the server is not trusted: {0}")]
    Certificate(String),
    /// The server answered a TLS handshake with something else, as an HTTP server does.
    #[error("the server has no TLS on this port: {0}")]
    NotTls(String),
    /// The forward proxy is down, or refuses to connect to the server.
    #[error(transparent)]
    Proxy(ProxyError),
}

impl ConnectFailure {
    /// Finds one of these causes in an error or its causes.
    pub(crate) fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        Self::of(error).or_else(|| Self::find(cause(error)?))
    }

    fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(error) = error.downcast_ref() {
            return plugin_failure(error).map(Self::CredentialPlugin);
        }
        match error.downcast_ref() {
            Some(tls::Error::InvalidCertificate(problem)) => {
                Some(Self::Certificate(problem.to_string()))
            }
            Some(problem @ tls::Error::InvalidMessage(_)) => {
                Some(Self::NotTls(problem.to_string()))
            }
            _ => error.downcast_ref().cloned().map(Self::Proxy),
        }
    }
}

/// Returns the cause of an error. `io::Error::source` skips the error that it wraps, which only
/// `get_ref` returns.
pub(super) fn cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    match error.downcast_ref().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn plugin_failure(error: &AuthError) -> Option<String> {
    match error {
        // The text of the library holds the output as a list of bytes.
        AuthError::AuthExecRun { out, .. } => Some(exit_text(out)),
        AuthError::AuthExecStart(cause) => Some(format!("cannot start it: {cause}")),
        AuthError::AuthExecParse(cause) => Some(format!("its output is not valid: {cause}")),
        _ => None,
    }
}

/// Returns how a program ended, and what it wrote to stderr, on one line.
fn exit_text(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stderr.lines().map(str::trim).collect();
    let text = lines.join("; ");
    match text.trim_matches(&[' ', ';'][..]) {
        "" => output.status.to_string(),
        text => format!("{}: {text}", output.status),
    }
}

/// Reports whether a server without an error of TLS or of a proxy closed the connection in place
/// of a response, or sent something else than HTTP.
pub(crate) fn is_not_http(error: &(dyn Error + 'static)) -> bool {
    let is_odd = |error: &hyper::Error| error.is_incomplete_message() || error.is_parse();
    let found = error.downcast_ref::<hyper::Error>().is_some_and(is_odd);
    found || error.source().is_some_and(is_not_http)
}

/// Error of a connection through a proxy: the proxy is down, is not trusted, or refuses the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot connect through proxy `{proxy}`: {cause}")]
pub(crate) struct ProxyError {
    /// URL without credentials.
    pub(super) proxy: String,
    pub(super) cause: String,
}
