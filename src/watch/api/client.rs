//! Which API server to talk to, and as whom.
//!
//! Apart from `transport` because this is a question of files and flags, that one of sockets.
//!
//! # Source
//!
//! Upstream: cmd/kube-proxy/app/server.go, createClient (v1.36)

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedCluster};
use kube::{Client, Config};

use super::encoding::Encoding;
use super::opening::{Opening, Turn};
use super::rate_limit::{RateLimit, RateLimiter};
use super::transport;
use crate::telemetry::RequestMetrics;
use crate::watch::bounded;

/// Where to find the API server. Any combination is legal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApiOptions {
    /// A kubeconfig; its current context is used.
    pub kubeconfig: Option<PathBuf>,
    /// Overrides the address of the server; enough alone if that needs no credentials.
    pub master: Option<String>,
    /// What it is asked to encode objects as.
    pub encoding: Encoding,
    /// Limit of requests.
    pub rate_limit: RateLimit,
}

/// A request that waits for longer is logged. Client-go's.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// A server to ask. Cheap to clone; connects with the first request and again when it must.
#[derive(Clone)]
pub struct ApiServer {
    client: Client,
    address: String,
    encoding: Encoding,
    opening: Arc<Opening>,
    limiter: Arc<RateLimiter>,
}

impl ApiServer {
    /// Wraps a client; `address` is for messages only.
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
            opening: Arc::default(),
            limiter: Arc::new(RateLimiter::new(limit)),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Waits until a request may be sent.
    pub(super) async fn turn(&self) -> Turn<'_> {
        let waited = self.limiter.wait().await;
        if waited >= LONG_WAIT {
            tracing::debug!(server = self.address, ?waited, "waited for --kube-api-qps");
        }
        self.opening.turn().await
    }

    /// What it is asked for; what it answers in is its choice.
    pub(super) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// As it is named in messages.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// Why there is no server to ask. Nothing was sent yet.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file is missing, or something in it or next to it is.
    #[error("reading kubeconfig `{}`", path.display())]
    Kubeconfig {
        /// The kubeconfig.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Neither a kubeconfig nor an address was given, and this is no Pod with a service account.
    #[error(
        "no --kubeconfig and no --manifests were given, and there is no service account of a Pod"
    )]
    InCluster(#[source] Box<InClusterError>),
    /// The address is none.
    #[error("`{0}` is not the address of an API server")]
    Address(String),
    /// The credentials were read and can't be used.
    #[error("preparing the connection to `{address}`")]
    Credentials {
        /// The server.
        address: String,
        /// What is wrong with them.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Prepares a client; must be called inside a tokio runtime.
///
/// Without a kubeconfig and without an address, the service account of the Pod is used, as
/// upstream does; no other file is ever guessed.
pub async fn connect(options: &ApiOptions) -> Result<ApiServer, ConnectError> {
    prepare(options, None).await
}

/// The same, with every request counted and timed.
pub async fn connect_counted(
    options: &ApiOptions,
    metrics: &RequestMetrics,
) -> Result<ApiServer, ConnectError> {
    prepare(options, Some(metrics)).await
}

async fn prepare(
    options: &ApiOptions,
    metrics: Option<&RequestMetrics>,
) -> Result<ApiServer, ConnectError> {
    let mut config = match (&options.kubeconfig, &options.master) {
        (Some(path), master) => from_kubeconfig(path, master.as_deref()).await?,
        (None, Some(master)) => Config::new(address(master)?),
        (None, None) => {
            Config::incluster().map_err(|error| ConnectError::InCluster(Box::new(error)))?
        }
    };
    config.cluster_url = with_scheme(&config)?;
    let address = config.cluster_url.to_string();
    if config.proxy_url.is_some() {
        tracing::warn!(server = %address, "proxies are not supported: connecting directly");
    }
    match transport::client(config, metrics) {
        Ok(client) => {
            let (encoding, limit) = (options.encoding, options.rate_limit);
            Ok(ApiServer::new(client, address, encoding, limit))
        }
        Err(source) => Err(ConnectError::Credentials { address, source }),
    }
}

async fn from_kubeconfig(path: &Path, master: Option<&str>) -> Result<Config, ConnectError> {
    let unreadable = |error| ConnectError::Kubeconfig {
        path: path.to_owned(),
        source: match error {
            // The file is named already.
            KubeconfigError::ReadConfig(error, _) => error.into(),
            other => other.into(),
        },
    };
    let mut kubeconfig = read(path).map_err(unreadable)?;
    if let Some(master) = master {
        let server = address(master)?.to_string();
        for cluster in kubeconfig
            .clusters
            .iter_mut()
            .filter_map(|named| named.cluster.as_mut())
        {
            cluster.server = Some(server.clone());
        }
    }
    let authority = authority_file(&kubeconfig);
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(unreadable)?;
    config.root_cert_file = authority;
    Ok(config)
}

/// The library reads a file whole, however large it is, and looks for others beside it. A pipe has
/// none beside it.
fn read(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let text = bounded::read_to_string(path, bounded::LARGEST_CONFIGURATION)
        .map_err(|error| KubeconfigError::ReadConfig(error, path.to_owned()))?;
    if bounded::is_file(path) {
        Kubeconfig::read_from(path)
    } else {
        Kubeconfig::from_yaml(&text)
    }
}

/// The file with the server's authority, which is then read again as it changes. The library does
/// that for Pods and reads the file of a kubeconfig once only.
fn authority_file(kubeconfig: &Kubeconfig) -> Option<PathBuf> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig
        .contexts
        .iter()
        .find(|context| &context.name == current)?;
    let name = &context.context.as_ref()?.cluster;
    let is_ours = |named: &&NamedCluster| &named.name == name;
    let cluster = kubeconfig.clusters.iter().find(is_ours)?.cluster.as_ref()?;
    match &cluster.certificate_authority_data {
        Some(data) if !data.is_empty() => None,
        _ => cluster
            .certificate_authority
            .as_ref()
            .filter(|path| !path.is_empty())
            .map(PathBuf::from),
    }
}

fn address(text: &str) -> Result<Uri, ConnectError> {
    let invalid = || ConnectError::Address(text.to_owned());
    let uri: Uri = text.parse().map_err(|_| invalid())?;
    uri.authority().is_some().then_some(uri).ok_or_else(invalid)
}

/// A bare `host:port` means TLS if anything in the configuration is about TLS.
///
/// Upstream: k8s.io/client-go/rest/url_utils.go, `DefaultServerUrlFor` (v1.36)
fn with_scheme(config: &Config) -> Result<Uri, ConnectError> {
    let invalid = || ConnectError::Address(config.cluster_url.to_string());
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
