//! The connection: one, multiplexed, and known to be dead within 45 seconds.
//!
//! The library's own stack is not used because it speaks HTTP/1.1 without any keepalive: a watch
//! through it stays blind for five minutes after a load balancer has forgotten the connection.
//!
//! # Source
//!
//! Upstream: k8s.io/apimachinery/pkg/util/net/http.go, `configureHTTP2Transport` (v1.36)

use std::error::Error;
use std::time::Duration;

use http::header::{HeaderValue, USER_AGENT};
use http::uri::Scheme;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

use super::counted::CountLayer;
use super::token_file::{TokenFile, TokenLayer};
use crate::telemetry::RequestMetrics;

/// Client-go's numbers: a ping after 30 s without a frame, and 15 s for its answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// How long written data may stay unacknowledged. As long as both of the above, so that a
/// connection without HTTP/2 is given up at the same time.
const UNACKNOWLEDGED: Duration = Duration::from_secs(45);

/// For connections without HTTP/2: 15 s of silence, then three probes of 10 s, so 45 s too.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// Per address of the server. Twice the slowest handshake that still makes a usable cluster.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a watch may hold in memory unread. The library's default is megabytes.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Four times that, so that three stuck watches do not keep a fourth request from being answered.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Builds the client. Nothing is retried below it, so that every failure is seen and counted.
pub(super) fn client(
    mut config: Config,
    metrics: Option<&RequestMetrics>,
) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let connector = connector(&mut config)?;
    client_over(connector, config, metrics)
}

/// Builds the client over connections that come from `connector`.
pub(super) fn client_over(
    connector: impl Connect + Clone + Send + Sync + 'static,
    mut config: Config,
    metrics: Option<&RequestMetrics>,
) -> Result<Client, Box<dyn Error + Send + Sync>> {
    config.default_retry = false;
    let agent = concat!("deltaproxy/", env!("CARGO_PKG_VERSION"));
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static(agent)));
    let hyper: HyperClient<_, Body> = HyperClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        // The library counts from the last request, whatever is still open: a watch that is renewed
        // every few minutes would be on a new connection each time.
        .pool_idle_timeout(None)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .build(connector);
    let token = TokenFile::take(&mut config)?.map(TokenLayer::from);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .option_layer(token)
        .option_layer(metrics.cloned().map(CountLayer))
        .map_err(BoxError::from)
        .service(hyper);
    Ok(Client::new(service, config.default_namespace))
}

fn connector(
    config: &mut Config,
) -> Result<HttpsConnector<HttpConnector>, Box<dyn Error + Send + Sync>> {
    let is_plain = config.cluster_url.scheme() == Some(&Scheme::HTTP);
    if config.root_cert.is_none() && (is_plain || config.accept_invalid_certs) {
        // Nothing will be verified: a machine without system certificates is good enough.
        config.root_cert = Some(Vec::new());
    }
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    if let Some(name) = config.tls_server_name.clone() {
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name.try_into()?));
    }
    Ok(builder.enable_all_versions().wrap_connector(tcp()))
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEPALIVE_PROBES));
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    tcp
}
