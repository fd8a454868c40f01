//! HTTP client of the API server, with HTTP/2. A dead connection is detected within 45 s.
//!
//! The stack of `kube` 5.0 is not used because it offers only HTTP/1.1, without TCP keepalive: a
//! watch through it misses events for five minutes after a load balancer has dropped the
//! connection.
//!
//! # Source
//!
//! Upstream: k8s.io/apimachinery/pkg/util/net/http.go, `configureHTTP2Transport` (v1.37)

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderValue, USER_AGENT};
use http::uri::Scheme;
use http::{Request, Response, StatusCode};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

use super::credentials::{RotatedClient, TokenFile};
use super::proxy::{Proxy, ServerConnector};
use crate::telemetry::RequestMetrics;

/// As in client-go: a ping after 30 s without a frame, and 15 s for its response.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum time without an acknowledgment of sent data. The sum of the two above, so that a dead
/// connection is closed after the same time with and without HTTP/2.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(45);

/// For connections without HTTP/2: 15 s of silence, then three probes of 10 s, so 45 s as well.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// Timeout of a TCP connection attempt, divided evenly among the addresses of an IP family. Twice
/// the slowest handshake in a usable cluster.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum bytes of a response that are received and unread. The library's default is megabytes.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Four times that, so that three stuck watches do not block the response to a fourth request.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Builds the client. It repeats no request, except one that was never written because a reused
/// connection had closed: so every failure is logged and counted.
pub(super) fn client(
    config: Config,
    proxy: Option<Proxy>,
    is_http1: bool,
    metrics: Option<&RequestMetrics>,
) -> Result<Client, BoxError> {
    let build = move |config: &mut Config| {
        let connector = connector(config, proxy.as_ref(), is_http1)?;
        Ok(http_client(connector))
    };
    let http = Arc::new(RotatedClient::new(config.clone(), build)?);
    let http = service_fn(move |request| {
        let http = Arc::clone(&http);
        async move { http.send(request).await }
    });
    with_request_layers(http, config, metrics)
}

/// Builds the client with another connector.
#[cfg(test)]
pub(super) fn client_over(
    connector: impl Connect + Clone + Send + Sync + 'static,
    config: Config,
    metrics: Option<&RequestMetrics>,
) -> Result<Client, BoxError> {
    with_request_layers(http_client(connector), config, metrics)
}

fn http_client<C: Connect + Clone>(connector: C) -> HyperClient<C, Body> {
    HyperClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        // The library counts idle time from the last request, even while a response is open: a
        // watch that is renewed every few minutes would get a new connection each time.
        .pool_idle_timeout(None)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .build(connector)
}

/// Adds the layers that give each request its address, credentials and headers, and count it.
fn with_request_layers<S, B>(
    http: S,
    mut config: Config,
    metrics: Option<&RequestMetrics>,
) -> Result<Client, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    config.default_retry = false;
    let agent = concat!("deltaproxy/", env!("CARGO_PKG_VERSION"));
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static(agent)));
    let token = TokenFile::take(&mut config)?.map(Arc::new);
    let metrics = metrics.cloned();
    // Below the layer that adds the address of the server, so that metrics have it.
    let http =
        service_fn(move |request| send(http.clone(), token.clone(), metrics.clone(), request));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

fn connector(
    config: &mut Config,
    proxy: Option<&Proxy>,
    is_http1: bool,
) -> Result<HttpsConnector<ServerConnector>, BoxError> {
    let is_plain =
        config.cluster_url.scheme() == Some(&Scheme::HTTP) && !proxy.is_some_and(Proxy::uses_tls);
    if config.root_cert.is_none() && (is_plain || config.accept_invalid_certs) {
        // Nothing will be verified, so system certificates are not required.
        config.root_cert = Some(Vec::new());
    }
    let tls = config.rustls_client_config()?;
    let connector = ServerConnector::new(tcp(), proxy, tls.clone());
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = config.tls_server_name.clone() {
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name.try_into()?));
    }
    Ok(if is_http1 {
        builder.enable_http1().wrap_connector(connector)
    } else {
        builder.enable_all_versions().wrap_connector(connector)
    })
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEPALIVE_PROBES));
    // Other systems do not have it, and run only commands.
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT));
    tcp
}

/// Sends a request with the token, and counts and times it.
async fn send<S, A, B>(
    http: S,
    token: Option<Arc<TokenFile>>,
    metrics: Option<RequestMetrics>,
    mut request: Request<A>,
) -> Result<Response<B>, BoxError>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    if let Some(token) = &token {
        request.headers_mut().insert(AUTHORIZATION, token.header());
    }
    // Counts as failed if it is dropped without a response, after a failure or a timeout of the
    // caller.
    let sent = metrics.map(|metrics| metrics.sent(&request));
    let response = http.oneshot(request).await.map_err(Into::into)?;
    if let Some(sent) = sent {
        sent.answered(response.status());
    }
    if let Some(token) = token
        && response.status() == StatusCode::UNAUTHORIZED
    {
        token.expire();
    }
    Ok(response)
}

#[cfg(test)]
#[path = "tests/transport.rs"]
mod tests;
