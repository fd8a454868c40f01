//! Builds the client of the API server from flags, a kubeconfig or the service account of the Pod.
//!
//! # Source
//!
//! Upstream: cmd/kube-proxy/app/server.go, `createClient` (v1.37)

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use kube::config::{
    Cluster, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedCluster,
};
use kube::{Client, Config};

use super::encoding::Encoding;
use super::error::ConnectFailure;
use super::proxy::{Proxy, ProxyEnvironment};
use super::rate_limit::{FirstRequestGate, FirstRequestGuard, RateLimit, RateLimiter};
use super::transport;
use crate::telemetry::RequestMetrics;
use crate::watch::bounded;

/// Connection settings of the API server. Any combination is valid.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApiOptions {
    /// Path of a kubeconfig; its current context is used.
    pub kubeconfig: Option<PathBuf>,
    /// Address that overrides that of the kubeconfig; sufficient alone if the server needs no
    /// credentials.
    pub master: Option<String>,
    /// Preferred encoding of responses.
    pub encoding: Encoding,
    /// Limit of the request rate.
    pub rate_limit: RateLimit,
}

/// Minimum wait for which a delayed request is logged, as in client-go.
const MIN_LOGGED_WAIT: Duration = Duration::from_secs(1);

/// Client of one API server. Cheap to clone; connects with the first request, and again when the
/// connection is lost.
#[derive(Clone)]
pub struct ApiClient {
    client: Client,
    address: String,
    encoding: Encoding,
    gate: Arc<FirstRequestGate>,
    limiter: Arc<RateLimiter>,
}

impl ApiClient {
    /// Wraps a client; `address` is for logs and errors only.
    pub fn new(
        client: Client,
        address: impl Into<String>,
        encoding: Encoding,
        limit: RateLimit,
    ) -> Self {
        Self {
            client,
            address: address.into(),
            encoding,
            gate: Arc::default(),
            limiter: Arc::new(RateLimiter::new(limit)),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Waits until the rate limit and [`FirstRequestGate`] allow another request.
    pub(super) async fn wait_to_send(&self) -> FirstRequestGuard<'_> {
        let waited = self.limiter.wait().await;
        if waited >= MIN_LOGGED_WAIT {
            tracing::debug!(
                server = self.address,
                ?waited,
                "client-side throttling: request delayed by --kube-api-qps"
            );
        }
        self.gate.enter().await
    }

    /// Returns the preferred encoding; a response may have another one.
    pub(super) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the address for logs and errors.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// Configuration that no client can be built from, found before a connection is opened.
#[derive(Debug, thiserror::Error)]
pub enum ClientConfigError {
    /// The kubeconfig cannot be read, or is invalid.
    #[error("cannot read kubeconfig `{}`", path.display())]
    Kubeconfig {
        /// Path of the kubeconfig.
        path: PathBuf,
        /// Cause.
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
        /// Address of the server.
        address: String,
        /// Cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Builds a client, without connecting; must be called inside a tokio runtime.
///
/// Without a kubeconfig and without an address, the service account of the Pod is used, as
/// upstream does; no default path of a kubeconfig is tried.
///
/// `proxies` are those of the environment; `proxy-url` of the kubeconfig takes precedence.
pub async fn build_client(
    options: &ApiOptions,
    proxies: &ProxyEnvironment,
) -> Result<ApiClient, ClientConfigError> {
    build(options, proxies, None).await
}

/// Builds a client whose requests are counted and timed; otherwise like [`build_client`].
pub(crate) async fn build_counted_client(
    options: &ApiOptions,
    proxies: &ProxyEnvironment,
    metrics: &RequestMetrics,
) -> Result<ApiClient, ClientConfigError> {
    build(options, proxies, Some(metrics)).await
}

async fn build(
    options: &ApiOptions,
    proxies: &ProxyEnvironment,
    metrics: Option<&RequestMetrics>,
) -> Result<ApiClient, ClientConfigError> {
    let mut proxy = None;
    let mut config = match (&options.kubeconfig, &options.master) {
        (Some(path), master) => {
            let (config, proxy_url) = from_kubeconfig(path, master.as_deref()).await?;
            proxy = proxy_url;
            config
        }
        (None, Some(master)) => Config::new(parse_address(master)?),
        (None, None) => {
            Config::incluster().map_err(|error| {
                // Callers print an error about missing flags in place of this one.
                tracing::debug!(cause = %error, "cannot use the service account of a Pod");
                ClientConfigError::InCluster(Box::new(error))
            })?
        }
    };
    config.cluster_url = with_scheme(&config)?;
    let address = config.cluster_url.to_string();
    let proxy = proxy.or_else(|| proxies.proxy_for(&config.cluster_url));
    match transport::client(config, proxy, metrics) {
        Ok(client) => {
            let (encoding, limit) = (options.encoding, options.rate_limit);
            Ok(ApiClient::new(client, address, encoding, limit))
        }
        Err(cause) => Err(ClientConfigError::Credentials {
            address,
            source: match ConnectFailure::find(&*cause) {
                Some(failure) => failure.into(),
                None => cause,
            },
        }),
    }
}

/// Returns the configuration of the current context, and the proxy that its cluster names.
async fn from_kubeconfig(
    path: &Path,
    master: Option<&str>,
) -> Result<(Config, Option<Proxy>), ClientConfigError> {
    let failed = |error| ClientConfigError::Kubeconfig {
        path: path.to_owned(),
        source: match error {
            // The error around it has the path already.
            KubeconfigError::ReadConfig(error, _) => error.into(),
            KubeconfigError::Parse(error) => syntax_error(&error).into(),
            other => other.into(),
        },
    };
    let mut kubeconfig = read(path).map_err(failed)?;
    if let Some(master) = master {
        let server = parse_address(master)?.to_string();
        for cluster in kubeconfig
            .clusters
            .iter_mut()
            .filter_map(|named| named.cluster.as_mut())
        {
            cluster.server = Some(server.clone());
        }
    }
    let (mut root_cert_file, mut proxy) = (None, None);
    if let Some(cluster) = current_cluster(&mut kubeconfig) {
        root_cert_file = ca_file(cluster);
        // Without a value, the library reads the environment itself, and knows no `NO_PROXY`.
        let url = cluster.proxy_url.replace(UNUSED_PROXY_URL.to_owned());
        if let Some(url) = url.filter(|url| !url.is_empty()) {
            let parsed = Proxy::parse_url(&url);
            proxy = Some(parsed.map_err(|error| ClientConfigError::Kubeconfig {
                path: path.to_owned(),
                source: error.into(),
            })?);
        }
    }
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(failed)?;
    config.root_cert_file = root_cert_file;
    config.proxy_url = None;
    Ok((config, proxy))
}

/// Returns the place of a syntax error and what is wrong, without text of the file: it may be a
/// token, and errors are logged.
fn syntax_error(error: &serde_saphyr::Error) -> String {
    let place = error.location().map_or_else(String::new, |location| {
        format!("line {}, column {}: ", location.line(), location.column())
    });
    match error.without_snippet() {
        // The YAML parser says what it expected, never what it found.
        serde_saphyr::Error::ExternalMessage { msg, .. } => format!("{place}{msg}"),
        _ => format!("{place}unexpected value, or a key that is repeated"),
    }
}

/// Valid address that nothing connects to.
const UNUSED_PROXY_URL: &str = "http://unused";

/// Reads a kubeconfig. The size is checked here, since the library has no limit. A regular file is
/// then read again by the library, which resolves relative paths in it. A pipe can be read only
/// once, and its paths have no folder to be relative to.
fn read(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let text = bounded::read_to_string(path, bounded::MAX_CONFIG_BYTES)
        .map_err(|error| KubeconfigError::ReadConfig(error, path.to_owned()))?;
    if bounded::is_file(path) {
        Kubeconfig::read_from(path)
    } else {
        Kubeconfig::from_yaml(&text)
    }
}

/// Returns the cluster of the current context.
fn current_cluster(kubeconfig: &mut Kubeconfig) -> Option<&mut Cluster> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig
        .contexts
        .iter()
        .find(|context| &context.name == current)?;
    let name = &context.context.as_ref()?.cluster;
    let is_current = |named: &&mut NamedCluster| &named.name == name;
    let found = kubeconfig.clusters.iter_mut().find(is_current)?;
    found.cluster.as_mut()
}

/// Returns the file with the CA certificate of a kubeconfig. It is set as the root certificate file
/// of the configuration, as the library does in Pods, because only that is read again when it
/// changes.
fn ca_file(cluster: &Cluster) -> Option<PathBuf> {
    match &cluster.certificate_authority_data {
        Some(data) if !data.is_empty() => None,
        _ => cluster
            .certificate_authority
            .as_ref()
            .filter(|path| !path.is_empty())
            .map(PathBuf::from),
    }
}

fn parse_address(text: &str) -> Result<Uri, ClientConfigError> {
    let invalid = || ClientConfigError::Address(text.to_owned());
    let uri: Uri = text.parse().map_err(|_| invalid())?;
    uri.authority().is_some().then_some(uri).ok_or_else(invalid)
}

/// Returns the server URL with a scheme. A bare `host:port` means TLS if anything in the
/// configuration is about TLS.
///
/// Upstream: k8s.io/client-go/rest/url_utils.go, `DefaultServerUrlFor` (v1.37)
fn with_scheme(config: &Config) -> Result<Uri, ClientConfigError> {
    let invalid = || ClientConfigError::Address(config.cluster_url.to_string());
    let mut parts = config.cluster_url.clone().into_parts();
    if parts.authority.is_none() {
        return Err(invalid());
    }
    let user = &config.auth_info;
    let is_tls = config.root_cert.is_some()
        || config.accept_invalid_certs
        || user.client_certificate.is_some()
        || user.client_certificate_data.is_some();
    let guess = if is_tls {
        http::uri::Scheme::HTTPS
    } else {
        http::uri::Scheme::HTTP
    };
    parts.scheme.get_or_insert(guess);
    parts
        .path_and_query
        .get_or_insert_with(|| http::uri::PathAndQuery::from_static("/"));
    Uri::from_parts(parts).map_err(|_| invalid())
}
