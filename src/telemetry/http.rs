//! A small HTTP/1 server for pages that are made without waiting.
//!
//! Apart because metrics, health and each health-check node port are served the same way, and
//! none of them may take the process down: connections are limited in number and in how slowly
//! they may speak and listen, requests in their size.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt};
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use super::room::Room;
use super::room::{Made, Place};

/// Connections served at once; one more takes the place of the oldest. Probes and scrapes are a
/// handful per second, so this is only met by a flood, which then costs a few megabytes and no
/// more.
const CONNECTIONS: usize = 256;

/// How long a client may take to send a request's head, and how long it may keep quiet between
/// requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// What the head of a request may measure, in bytes. Those of Prometheus and of probes have a few
/// hundred.
const LONGEST_HEAD: usize = 16 * 1024;

/// What a body may measure, in bytes: the only one that means anything is a number.
const LONGEST_BODY: usize = 4 * 1024;

/// How long a body may take to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may leave its answer unread, in milliseconds: the kernel then gives the
/// connection up, whatever the client says meanwhile.
const UNREAD_TIMEOUT: u32 = 10_000;

/// How long the last answers may take once the server is stopped.
const DRAIN: Duration = Duration::from_secs(5);

/// The pause after a failed accept, lest a process out of file descriptors spins.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How often it is told that no connection can be accepted.
const RETOLD: Duration = Duration::from_secs(60);

/// The type of pages for people.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// A whole answer.
pub type Reply = Response<Full<Bytes>>;

/// Answers requests until stopped, then lets running answers end.
///
/// Everything happens within this future: dropped, it closes every connection.
pub async fn serve<H>(listener: TcpListener, handler: H, stop: CancellationToken)
where
    H: Fn(&Parts) -> Reply,
{
    serve_within(Room::new(CONNECTIONS), listener, handler, stop).await;
}

/// The same for one of many servers that share their room: whoever floods them cannot take more of
/// the process's memory and open files than that.
pub async fn serve_within<H>(room: Room, listener: TcpListener, handler: H, stop: CancellationToken)
where
    H: Fn(&Parts) -> Reply,
{
    let answer = |request: Request<Bytes>| handler(&request.into_parts().0);
    serve_all(room, listener, answer, stop).await;
}

/// The same as [`serve`] for pages that look at the body.
pub async fn serve_requests<H>(listener: TcpListener, handler: H, stop: CancellationToken)
where
    H: Fn(Request<Bytes>) -> Reply,
{
    serve_all(Room::new(CONNECTIONS), listener, handler, stop).await;
}

async fn serve_all<H>(room: Room, listener: TcpListener, handler: H, stop: CancellationToken)
where
    H: Fn(Request<Bytes>) -> Reply,
{
    let graceful = GracefulShutdown::new();
    let mut connections = FuturesUnordered::new();
    let pause = sleep(Duration::ZERO);
    tokio::pin!(pause);
    let mut told: Option<Instant> = None;
    loop {
        tokio::select! {
            // Who has lost a place has to be gone before another place is asked for.
            biased;
            () = stop.cancelled() => break,
            Some(()) = connections.next() => {}
            () = &mut pause, if !pause.is_elapsed() => {}
            accepted = listener.accept(), if pause.is_elapsed() => match accepted {
                Ok((stream, _)) => {
                    let place = room.enter();
                    connections.push(connection((stream, place), &handler, graceful.watcher()));
                }
                // No open file may be left: then this takes back one.
                Err(error) => {
                    let now = Instant::now();
                    if told.is_none_or(|told| now - told >= RETOLD) {
                        tracing::warn!(%error, "cannot accept a connection");
                        told = Some(now);
                    }
                    if room.make() == Made::Nothing {
                        pause.as_mut().reset(now + ACCEPT_PAUSE);
                    }
                }
            },
        }
    }
    drop(listener);
    let rest = async { while connections.next().await.is_some() {} };
    let _ = timeout(DRAIN, async { tokio::join!(graceful.shutdown(), rest) }).await;
}

/// Serves one client, until its place is another's. How the connection ended is its client's
/// business.
async fn connection<H>((stream, place): (TcpStream, Place), handler: &H, watcher: Watcher)
where
    H: Fn(Request<Bytes>) -> Reply,
{
    // Without it, the limit of connections still holds.
    let _ = setsockopt(&stream, sockopt::TcpUserTimeout, &UNREAD_TIMEOUT);
    let answer = |request: Request<Incoming>| async move {
        let reply = match whole(request).await {
            Ok(request) => handler(request),
            Err(refusal) => refusal,
        };
        Ok::<_, Infallible>(reply)
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(LONGEST_HEAD)
        // As Go writes them, for those who look at the bytes.
        .title_case_headers(true)
        .serve_connection(TokioIo::new(stream), service_fn(answer));
    tokio::select! {
        _ = watcher.watch(connection) => {}
        () = place.lost() => {}
    }
}

/// The request with its body. One that announces too long a body is refused before any of that is
/// read.
async fn whole(request: Request<Incoming>) -> Result<Request<Bytes>, Reply> {
    let (head, body) = request.into_parts();
    if body.size_hint().lower() > LONGEST_BODY as u64 {
        return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE));
    }
    match timeout(BODY_TIMEOUT, Limited::new(body, LONGEST_BODY).collect()).await {
        Ok(Ok(body)) => Ok(Request::from_parts(head, body.to_bytes())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(refusal(StatusCode::PAYLOAD_TOO_LARGE))
        }
        Ok(Err(_)) => Err(refusal(StatusCode::BAD_REQUEST)),
        Err(_) => Err(refusal(StatusCode::REQUEST_TIMEOUT)),
    }
}

/// The last answer of a connection, since nobody knows where the next request begins.
fn refusal(status: StatusCode) -> Reply {
    let mut reply = reply(status, TEXT, format!("{status}\n"));
    reply
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

/// An answer that no browser may take for something else than it says it is.
pub fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// The answer for a path that is not there, as Go's server words it.
pub fn not_found() -> Reply {
    let text = "404 page not found\n";
    reply(StatusCode::NOT_FOUND, TEXT, text)
}

#[cfg(test)]
#[path = "tests/http.rs"]
mod tests;
