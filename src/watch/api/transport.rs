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

use http::header::{HeaderValue, USER_AGENT};
use http::uri::Scheme;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder, service_fn};

use super::credentials::RotatedClient;
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
    let connect = move |config: &mut Config| connector(config, proxy.as_ref(), is_http1);
    client_over(connect, config, metrics)
}

/// Builds the client with the connectors that `connect` returns.
pub(super) fn client_over<C: Connect + Clone + Send + Sync + 'static>(
    connect: impl Fn(&mut Config) -> Result<C, BoxError> + Send + Sync + 'static,
    mut config: Config,
    metrics: Option<&RequestMetrics>,
) -> Result<Client, BoxError> {
    let build = move |config: &mut Config| connect(config).map(http_client);
    let http = Arc::new(RotatedClient::new(&mut config, build)?);
    config.default_retry = false;
    let agent = concat!("deltaproxy/", env!("CARGO_PKG_VERSION"));
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static(agent)));
    let metrics = metrics.cloned();
    // Below the layer that adds the address of the server, so that metrics have it.
    let http = service_fn(move |request| send(Arc::clone(&http), metrics.clone(), request));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
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

/// Sends a request, and counts and times it.
async fn send<C: Connect + Clone + Send + Sync + 'static>(
    http: Arc<RotatedClient<HyperClient<C, Body>>>,
    metrics: Option<RequestMetrics>,
    request: Request<Body>,
) -> Result<Response<Incoming>, BoxError> {
    // Counts as failed if it is dropped without a response, after a failure or a timeout of the
    // caller.
    let sent = metrics.map(|metrics| metrics.sent(&request));
    let response = http.send(request).await?;
    if let Some(sent) = sent {
        sent.answered(response.status());
    }
    Ok(response)
}
