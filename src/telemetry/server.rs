//! HTTP/1 server for metrics, health and health check node ports.
//!
//! No client may take the process down: the number of connections, the time to send a request and
//! to read a response, and the size of requests are limited. At the limit of connections a new
//! one evicts the oldest, so the server never stops accepting. If new connections waited instead,
//! any pod could occupy all of them with idle ones; then kubelet's probe would time out, and
//! kubelet would kill the daemon. A flood has to open connections faster than a probe is answered
//! to do harm.
//!
//! Listening sockets have two habits of kube-proxy that manifests and load balancers rely on: the
//! IPv4 wildcard also listens on IPv6, as Go does by default, and a port in use is retried.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt};
use http::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::uri::Authority;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::linux::set_tcp_user_timeout;
use crate::net::Locked;

/// Maximum connections of a server; one more evicts the oldest. Probes and scrapes are a handful
/// per second, so only a flood reaches this, and then costs no more than a few megabytes.
const MAX_CONNECTIONS: usize = 256;

/// Time that a client may take to send the head of a request, and may idle between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of the head of a request in bytes. Those of Prometheus and of probes have a few
/// hundred.
const MAX_HEAD: usize = 16 * 1024;

/// Maximum size of a body in bytes: the only body that a page reads is a number.
const MAX_BODY: usize = 4 * 1024;

/// Time that a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Time in milliseconds for which a client may leave a response unread. Then the kernel closes the
/// connection, even if the client sends data meanwhile.
const UNREAD_TIMEOUT: u32 = 10_000;

/// Time that the last responses may take after the server is stopped.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after a failed accept, so that a process out of file descriptors does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Interval between log lines about failed accepts.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Content type of human-readable pages.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

pub(crate) type Reply = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// Address of the client, which requests have as an extension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(pub IpAddr);

/// Serves requests until stopped, then lets open responses finish.
///
/// All work happens within this future: dropping it closes every connection.
pub(crate) async fn serve<H, F>(listener: TcpListener, handler: H, stop: CancellationToken)
where
    H: Fn(Request<Bytes>) -> F,
    F: Future<Output = Reply>,
{
    let limit = ConnectionLimit::new(MAX_CONNECTIONS);
    serve_within(limit, listener, |_| true, handler, stop).await;
}

/// Serves like [`serve`], with a limit of connections that several servers share: together they
/// take no more memory and open files than that, even in a flood. Closes connections to addresses
/// of this node that are not `served`.
pub(crate) async fn serve_within<H, F>(
    limit: ConnectionLimit,
    listener: TcpListener,
    served: impl Fn(IpAddr) -> bool,
    handler: H,
    stop: CancellationToken,
) where
    H: Fn(Request<Bytes>) -> F,
    F: Future<Output = Reply>,
{
    let graceful = GracefulShutdown::new();
    let mut connections = FuturesUnordered::new();
    let pause = sleep(Duration::ZERO);
    tokio::pin!(pause);
    let mut logged: Option<Instant> = None;
    loop {
        tokio::select! {
            // An evicted connection has to be closed before another one is accepted.
            biased;
            () = stop.cancelled() => break,
            Some(()) = connections.next() => {}
            () = &mut pause, if !pause.is_elapsed() => {}
            accepted = listener.accept(), if pause.is_elapsed() => match accepted {
                Ok((stream, _)) => {
                    if !stream.local_addr().is_ok_and(|address| served(address.ip())) {
                        continue;
                    }
                    let permit = limit.acquire();
                    connections.push(connection((stream, permit), &handler, graceful.watcher()));
                }
                // If the process is out of open files, an eviction frees one.
                Err(error) => {
                    let now = Instant::now();
                    if logged.is_none_or(|logged| now - logged >= LOG_INTERVAL) {
                        tracing::warn!(%error, "cannot accept a connection; evicting the oldest one");
                        logged = Some(now);
                    }
                    if !limit.evict_oldest() {
                        pause.as_mut().reset(now + ACCEPT_PAUSE);
                    }
                }
            },
        }
    }
    drop(listener);
    let rest = async { while connections.next().await.is_some() {} };
    let _ = timeout(DRAIN_TIMEOUT, async {
        tokio::join!(graceful.shutdown(), rest)
    })
    .await;
}

/// Serves one connection until it ends or is evicted. Its errors are not reported, as clients can
/// cause them at will.
async fn connection<H, F>(
    (stream, permit): (TcpStream, ConnectionPermit),
    handler: &H,
    watcher: Watcher,
) where
    H: Fn(Request<Bytes>) -> F,
    F: Future<Output = Reply>,
{
    // If this fails, the limit of connections still holds.
    let _ = set_tcp_user_timeout(&stream, UNREAD_TIMEOUT);
    let client = stream
        .peer_addr()
        .map(|address| ClientAddress(address.ip()))
        .ok();
    let respond = |request: Request<Incoming>| async move {
        let reply = match read_body(request).await {
            Ok(mut request) => {
                if let Some(client) = client {
                    request.extensions_mut().insert(client);
                }
                handler(request).await
            }
            Err(rejection) => rejection,
        };
        Ok::<_, Infallible>(reply)
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        // Go capitalizes headers, and scripts may match them byte by byte.
        .title_case_headers(true)
        .serve_connection(TokioIo::new(stream), service_fn(respond));
    tokio::select! {
        _ = watcher.watch(connection) => {}
        () = permit.evicted() => {}
    }
}

/// Reads the body of a request. One that announces too long a body is rejected before any of it is
/// read.
async fn read_body(request: Request<Incoming>) -> Result<Request<Bytes>, Reply> {
    let (head, body) = request.into_parts();
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(rejection(StatusCode::PAYLOAD_TOO_LARGE));
    }
    match timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect()).await {
        Ok(Ok(body)) => Ok(Request::from_parts(head, body.to_bytes())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(rejection(StatusCode::PAYLOAD_TOO_LARGE))
        }
        Ok(Err(_)) => Err(rejection(StatusCode::BAD_REQUEST)),
        Err(_) => Err(rejection(StatusCode::REQUEST_TIMEOUT)),
    }
}

/// Returns the last response of a connection: without the body, the start of the next request is
/// unknown.
fn rejection(status: StatusCode) -> Reply {
    let mut reply = reply(status, TEXT, format!("{status}\n"));
    reply
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

/// Returns a response whose content type browsers must not guess.
pub(crate) fn reply(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Reply {
    streamed(
        status,
        content_type,
        Full::new(body.into()).map_err(|never| match never {}),
    )
}

/// Returns a response whose body is made as it is sent, and whose content type browsers must not
/// guess.
pub(crate) fn streamed(
    status: StatusCode,
    content_type: &'static str,
    body: impl Body<Data = Bytes, Error = io::Error> + Send + 'static,
) -> Reply {
    let mut reply = Response::new(body.boxed_unsync());
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// Reports whether a client on this node sent a request, and meant this node: its address is a
/// loopback address, and so is the host that it names, if it names one. A page of another site in
/// a browser names its own host, even if its name leads here.
pub(crate) fn is_of_this_node(request: &Request<Bytes>) -> bool {
    let client = request.extensions().get::<ClientAddress>();
    let named = request.headers().get(HOST);
    let named = named.map(|host| host.to_str().ok().and_then(|host| host.parse().ok()));
    let is_ours = |authority: &Authority| is_loopback(authority.host());
    client.is_some_and(|client| client.0.to_canonical().is_loopback())
        && request.uri().authority().is_none_or(is_ours)
        && named.is_none_or(|host| host.as_ref().is_some_and(is_ours))
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let is_address = |address: IpAddr| address.to_canonical().is_loopback();
    host == "localhost" || address.parse().is_ok_and(is_address)
}

/// Returns the response for an unknown path, in the words of Go's server.
pub(crate) fn not_found() -> Reply {
    let text = "404 page not found\n";
    reply(StatusCode::NOT_FOUND, TEXT, text)
}

/// Limit of the connections of one or more servers. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionLimit {
    max: usize,
    /// One token for each connection, the oldest first.
    permits: Arc<Locked<VecDeque<CancellationToken>>>,
}

impl ConnectionLimit {
    /// Returns a limit of this many connections, at least one.
    pub(crate) fn new(connections: usize) -> Self {
        Self {
            max: connections.max(1),
            permits: Arc::default(),
        }
    }

    /// Returns a permit for a new connection. At the limit it evicts the oldest one.
    fn acquire(&self) -> ConnectionPermit {
        let token = CancellationToken::new();
        let mut permits = self.permits.lock();
        while permits.len() >= self.max {
            if let Some(oldest) = permits.pop_front() {
                oldest.cancel();
            }
        }
        permits.push_back(token.clone());
        ConnectionPermit {
            limit: self.clone(),
            token,
        }
    }

    /// Closes the oldest connection; returns false if there is none.
    fn evict_oldest(&self) -> bool {
        let oldest = self.permits.lock().pop_front();
        oldest.is_some_and(|oldest| {
            oldest.cancel();
            true
        })
    }
}

/// Permit of one connection; dropping it makes room for another one.
#[derive(Debug)]
struct ConnectionPermit {
    limit: ConnectionLimit,
    token: CancellationToken,
}

impl ConnectionPermit {
    fn evicted(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        // Canceling marks the permit in the list; an evicted one has left the list already.
        let was_evicted = self.token.is_cancelled();
        self.token.cancel();
        if !was_evicted {
            self.limit
                .permits
                .lock()
                .retain(|token| !token.is_cancelled());
        }
    }
}

/// Retry delay of a port in use, as upstream has it.
const RETRY: Duration = Duration::from_secs(5);

/// Maximum connections that the kernel queues until they are accepted.
const BACKLOG: u32 = 1024;

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on `{address}`")]
pub(crate) struct ListenError {
    pub address: SocketAddr,
    pub source: io::Error,
}

/// Listens on an address. `0.0.0.0` stands for all addresses of both families if the node has
/// both.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    let wildcard_v4 = matches!(address.ip(), IpAddr::V4(ip) if ip.is_unspecified());
    let opened = if wildcard_v4 {
        let both = SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port()));
        open(both, Wildcard::BothFamilies).or_else(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Err(error),
            // Any other error: a node without IPv6.
            _ => open(address, Wildcard::BothFamilies),
        })
    } else {
        open(address, Wildcard::BothFamilies)
    };
    opened.map_err(|source| ListenError { address, source })
}

/// Listens on an address of one family; a wildcard stands for that family only.
pub(crate) fn listen_in_family(address: SocketAddr) -> Result<TcpListener, ListenError> {
    open(address, Wildcard::OneFamily).map_err(|source| ListenError { address, source })
}

/// Addresses that `::` stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wildcard {
    /// All addresses of the node.
    BothFamilies,
    /// All IPv6 addresses.
    OneFamily,
}

/// Listens on an address, and retries as long as that fails. `name` stands for the server in the
/// log, `flag` sets the address. Returns `None` if stopped before it succeeded.
pub(crate) async fn listen_retrying(
    address: SocketAddr,
    name: &str,
    flag: &str,
    stop: &CancellationToken,
) -> Option<TcpListener> {
    let mut has_failed = false;
    loop {
        match listen(address) {
            Ok(listener) => {
                if has_failed {
                    tracing::info!(%address, "serving {name} now");
                }
                return Some(listener);
            }
            Err(ListenError { source, .. }) => {
                has_failed = true;
                tracing::error!(
                    %address, flag, error = %source,
                    "cannot serve {name}; retrying in {RETRY:?}, rules are synced meanwhile"
                );
            }
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = stop.cancelled() => return None,
        }
    }
}

fn open(address: SocketAddr, wildcard: Wildcard) -> io::Result<TcpListener> {
    let socket = match address.ip() {
        IpAddr::V4(_) => TcpSocket::new_v4()?,
        IpAddr::V6(ip) => {
            let socket = TcpSocket::new_v6()?;
            let is_v6_only = wildcard == Wildcard::OneFamily || !ip.is_unspecified();
            setsockopt(&socket, sockopt::Ipv6V6Only, &is_v6_only)?;
            socket
        }
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
#[path = "tests/server.rs"]
mod tests;

#[cfg(test)]
#[path = "tests/listen.rs"]
mod listen_tests;
