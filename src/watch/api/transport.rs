//! HTTP client of the API server, with HTTP/2, and with credentials in files that are rotated: the
//! bearer token, and the client certificate with its key. A dead connection is detected within 45
//! s.
//!
//! The stack of `kube` 5.0 is not used because it offers only HTTP/1.1, without TCP keepalive: a
//! watch through it misses events for five minutes after a load balancer has dropped the
//! connection.
//!
//! Its token layer is not used because it sends the file unchanged, so that a line end makes every
//! request fail, and because it sends an old token for up to a minute after the server has rejected
//! it.
//!
//! When the certificate files have changed, new requests use new connections with the new
//! certificate. A request over an old connection would fail once the old certificate has expired.
//! Only an open watch continues over its old connection, until it ends.
//!
//! # Source
//!
//! Upstream: k8s.io/apimachinery/pkg/util/net/http.go, `configureHTTP2Transport` (v1.37)
//! Upstream: k8s.io/client-go/transport/token_source.go, `NewCachedFileTokenSource` (v1.37)
//! Upstream: k8s.io/client-go/transport/cert_rotation.go, `dynamicClientCert` (v1.37)
//!
//! Differs from upstream: files are read again before the first request after 50 s, after a failed
//! request and after the status 401. Upstream reads those of a certificate every 5 min and, if they
//! have changed, closes all connections, open watches included.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use http::header::{AUTHORIZATION, HeaderValue, USER_AGENT};
use http::uri::Scheme;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

use super::proxy::{Proxy, ServerConnector};
use crate::net::Locked;
use crate::telemetry::RequestMetrics;
use crate::watch::bounded;

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

/// Maximum time between two reads of a file while requests are sent: a minute less ten seconds, as
/// for tokens in client-go.
pub(super) const REREAD_INTERVAL: Duration = Duration::from_secs(50);

fn read_token(path: &Path) -> Result<HeaderValue, BoxError> {
    let text = read(path, "token file")?;
    let token = text.trim();
    let problem = |what: &str| format!("token file `{}` {what}", path.display());
    if token.is_empty() {
        return Err(problem("is empty").into());
    }
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| problem("must hold one line of text"))?;
    header.set_sensitive(true);
    Ok(header)
}

fn read(path: &Path, what: &str) -> Result<String, BoxError> {
    bounded::regular_file_to_string(path, bounded::MAX_CONFIG_BYTES)
        .map_err(|error| format!("cannot read {what} `{}`: {error}", path.display()).into())
}

/// Builds an HTTP client from a configuration.
type BuildClient<C> = Box<dyn Fn(&mut Config) -> Result<C, BoxError> + Send + Sync>;

/// HTTP client that sends the token of a file, and is rebuilt when the files of its certificate
/// change.
pub(super) struct RotatedClient<C> {
    build: BuildClient<C>,
    /// `None` if the token is not in a file, or if there is none.
    token_file: Option<PathBuf>,
    /// `None` if there is no client certificate, or one that is not in files.
    certificate_files: Option<CertificateFiles>,
    state: Locked<RotationState<C>>,
}

struct RotationState<C> {
    /// Cheap to clone: clones share their connections.
    client: C,
    config: Config,
    /// Contents of the files from which `client` was built.
    pair: Option<CertificatePair>,
    /// Value of `Authorization`, from the last token that was valid.
    token: Option<HeaderValue>,
    /// Time of the next read of all files.
    next_read: Instant,
}

impl<C: Clone> RotatedClient<C> {
    /// Builds the first client, and takes the token file out of its configuration.
    pub(super) fn new(
        config: &mut Config,
        build: impl Fn(&mut Config) -> Result<C, BoxError> + Send + Sync + 'static,
    ) -> Result<Self, BoxError> {
        let token_file = take_token_file(config);
        let mut config = config.clone();
        let certificate_files = CertificateFiles::of(&config);
        let pair = certificate_files.as_ref();
        let pair = pair.map(CertificateFiles::read).transpose()?;
        if let Some(pair) = &pair {
            pair.install(&mut config);
        }
        let state = RotationState {
            client: build(&mut config)?,
            config,
            pair,
            token: token_file.as_deref().map(read_token).transpose()?,
            next_read: Instant::now() + REREAD_INTERVAL,
        };
        Ok(Self {
            build: Box::new(build),
            token_file,
            certificate_files,
            state: Locked::new(state),
        })
    }

    /// Sends a request with the present token and certificate.
    pub(super) async fn send<A, B>(&self, mut request: Request<A>) -> Result<Response<B>, BoxError>
    where
        C: Service<Request<A>, Response = Response<B>>,
        C::Error: Into<BoxError>,
    {
        let (client, token) = self.current();
        if let Some(token) = token {
            request.headers_mut().insert(AUTHORIZATION, token);
        }
        let result = client.oneshot(request).await.map_err(Into::into);
        let is_rejected = |response: &Response<B>| response.status() == StatusCode::UNAUTHORIZED;
        if result.as_ref().map_or(true, is_rejected) {
            // The server may have rejected the credentials: the next request reads the files again.
            self.state.lock().next_read = Instant::now();
        }
        result
    }

    /// Returns the client and the token for a request. If a file cannot be used, its last content
    /// stays in use.
    fn current(&self) -> (C, Option<HeaderValue>) {
        let mut state = self.state.lock();
        let now = Instant::now();
        if now >= state.next_read {
            state.next_read = now + REREAD_INTERVAL;
            if let Some(path) = &self.token_file {
                match read_token(path) {
                    Ok(token) => state.token = Some(token),
                    Err(error) => {
                        let path = path.display();
                        tracing::warn!(%path, error, "cannot read the token file: the last token stays in use");
                    }
                }
            }
            if let Some(files) = &self.certificate_files
                // The files may be replaced one after the other, so an error may be temporary.
                && let Err(error) = state.update(files, &self.build)
            {
                let path = files.certificate.display();
                tracing::warn!(%path, error, "cannot use the new client certificate: the previous one stays in use");
            }
        }
        (state.client.clone(), state.token.clone())
    }
}

impl<C> RotationState<C> {
    /// Reads the files, and replaces the client if they have changed.
    fn update(&mut self, files: &CertificateFiles, build: &BuildClient<C>) -> Result<(), BoxError> {
        let pair = files.read()?;
        if self.pair.as_ref() == Some(&pair) {
            return Ok(());
        }
        pair.install(&mut self.config);
        self.client = build(&mut self.config)?;
        self.pair = Some(pair);
        let path = files.certificate.display();
        tracing::info!(%path, "client certificate replaced");
        Ok(())
    }
}

/// Takes the token file out of a configuration, unless its token comes from elsewhere.
fn take_token_file(config: &mut Config) -> Option<PathBuf> {
    let user = &mut config.auth_info;
    let is_basic = user.username.is_some() && user.password.is_some();
    if is_basic || user.token.is_some() || user.auth_provider.is_some() {
        return None;
    }
    user.token_file.take().map(PathBuf::from)
}

/// Files of a client certificate and its key.
struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
}

impl CertificateFiles {
    /// Returns the files of a configuration; `None` if it has none, or their contents inline.
    fn of(config: &Config) -> Option<Self> {
        let user = &config.auth_info;
        if user.client_certificate_data.is_some() || user.client_key_data.is_some() {
            return None;
        }
        Some(Self {
            certificate: user.client_certificate.as_ref()?.into(),
            key: user.client_key.as_ref()?.into(),
        })
    }

    fn read(&self) -> Result<CertificatePair, BoxError> {
        Ok(CertificatePair {
            certificate: read(&self.certificate, "client certificate")?,
            key: read(&self.key, "client key")?,
        })
    }
}

/// Contents of the files, in PEM.
#[derive(PartialEq, Eq)]
struct CertificatePair {
    certificate: String,
    key: String,
}

impl CertificatePair {
    /// Makes a configuration use exactly these contents, whatever is in the files later.
    fn install(&self, config: &mut Config) {
        let user = &mut config.auth_info;
        user.client_certificate_data = Some(BASE64.encode(self.certificate.as_bytes()));
        user.client_key_data = Some(BASE64.encode(self.key.as_bytes()).into());
    }
}
