//! Client of the API server: built from flags, a context of a kubeconfig or of several that are
//! merged, or the service account of the Pod. It limits the rate of requests.
//!
//! The limit does not depend on the responses, so that no server can provoke a request storm.
//!
//! # Source
//!
//! Upstream: cmd/kube-proxy/app/server.go, `createClient`;
//! k8s.io/client-go/tools/clientcmd/client_config.go, `DirectClientConfig`;
//! k8s.io/client-go/util/flowcontrol/throttle.go, `NewTokenBucketRateLimiter` (v1.37)
//!
//! Differs from upstream: there watches are not limited, so a server that ends each watch at once
//! gets thousands of requests per second.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use kube::config::{Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedCluster};
use kube::{Client, Config};
use tokio::time::{Instant, sleep};
use tower::BoxError;

use super::encoding::Encoding;
use super::error::{ClientConfigError, ConnectFailure};
use super::proxy::{Proxy, ProxyEnvironment};
use super::transport;
use crate::net::Locked;
use crate::telemetry::RequestMetrics;
use crate::watch::bounded;

/// Connection settings of the API server. Any combination is valid.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApiOptions {
    /// Paths of kubeconfigs, which are merged.
    pub kubeconfigs: Vec<PathBuf>,
    pub context: ContextChoice,
    /// Address that overrides that of the kubeconfig; sufficient alone if the server needs no
    /// credentials.
    pub master: Option<String>,
    /// Preferred encoding of responses.
    pub encoding: Encoding,
    pub rate_limit: RateLimit,
    /// Connections are of HTTP/1.1, which can be upgraded for streams to Pods.
    pub is_http1: bool,
    /// Maximum time of a command to list all objects. The daemon has none, because it retries.
    pub list_timeout: Option<Duration>,
}

/// Client of one API server. Cheap to clone; connects with the first request, and again when the
/// connection is lost.
#[derive(Clone)]
pub struct ApiClient {
    pub(super) client: Client,
    address: String,
    /// Preferred encoding; a response may have another one.
    pub(super) encoding: Encoding,
    pub(super) limiter: Arc<RateLimiter>,
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
            limiter: Arc::new(RateLimiter::new(limit)),
        }
    }

    /// Returns the address for logs and errors.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// Builds a client, without connecting; must be called inside a tokio runtime.
///
/// Without a kubeconfig and without an address, the service account of the Pod is used, as
/// upstream does; no default path of a kubeconfig is tried here.
///
/// `proxies` are those of the environment; `proxy-url` of the kubeconfig takes precedence.
pub async fn build_client(
    options: &ApiOptions,
    proxies: &ProxyEnvironment,
) -> Result<ApiClient, ClientConfigError> {
    build_counted_client(options, proxies, None).await
}

/// Builds a client whose requests are counted and timed; otherwise like [`build_client`].
pub(crate) async fn build_counted_client(
    options: &ApiOptions,
    proxies: &ProxyEnvironment,
    metrics: Option<&RequestMetrics>,
) -> Result<ApiClient, ClientConfigError> {
    let mut proxy = None;
    let mut config = match (&*options.kubeconfigs, &options.master) {
        (paths @ [_, ..], master) => {
            let (config, proxy_url) =
                from_kubeconfigs(paths, &options.context, master.as_deref()).await?;
            proxy = proxy_url;
            config
        }
        ([], Some(master)) => Config::new(parse_address(master)?),
        ([], None) => {
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
    let plugin = config.auth_info.exec.as_ref();
    let plugin = plugin.and_then(|exec| exec.command.clone());
    match transport::client(config, proxy, options.is_http1, metrics) {
        Ok(client) => {
            let (encoding, limit) = (options.encoding, options.rate_limit);
            Ok(ApiClient::new(client, address, encoding, limit))
        }
        Err(cause) => Err(ClientConfigError::Credentials {
            address,
            source: match ConnectFailure::find(&*cause) {
                Some(ConnectFailure::CredentialPlugin(problem)) => {
                    let plugin = plugin.unwrap_or_default();
                    format!("the credential plugin `{plugin}` of the kubeconfig failed: {problem}")
                        .into()
                }
                Some(failure) => failure.into(),
                None => cause,
            },
        }),
    }
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

/// Values of `--kube-api-qps` and `--kube-api-burst`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Requests per second, in the long run. Zero or less: no limit.
    pub qps: f32,
    /// Requests that may be sent at once after a while without any.
    pub burst: u32,
}

impl Default for RateLimit {
    /// Returns the defaults of client-go.
    fn default() -> Self {
        Self {
            qps: 5.0,
            burst: 10,
        }
    }
}

/// Token bucket: each request takes a token, or waits for one in order.
#[derive(Debug)]
pub(super) struct RateLimiter(Option<Locked<Bucket>>);

#[derive(Debug)]
struct Bucket {
    qps: f64,
    burst: f64,
    /// Negative: number of requests that wait.
    tokens: f64,
    filled: Option<Instant>,
}

impl RateLimiter {
    pub(super) fn new(limit: RateLimit) -> Self {
        let (qps, burst) = (f64::from(limit.qps), f64::from(limit.burst.max(1)));
        // NaN means no limit, as in client-go.
        Self((qps > 0.0).then(|| {
            Locked::new(Bucket {
                qps,
                burst,
                tokens: burst,
                filled: None,
            })
        }))
    }

    /// Waits until a request may be sent.
    pub(super) async fn wait(&self) {
        let Some(bucket) = &self.0 else {
            return;
        };
        let wait = bucket.lock().take(Instant::now());
        if !wait.is_zero() {
            sleep(wait).await;
        }
    }
}

impl Bucket {
    fn take(&mut self, now: Instant) -> Duration {
        let filled = self.filled.replace(now).unwrap_or(now);
        let passed = now.saturating_duration_since(filled).as_secs_f64();
        self.tokens = (self.tokens + passed * self.qps).min(self.burst) - 1.0;
        let missing = (-self.tokens).max(0.0) / self.qps;
        Duration::try_from_secs_f64(missing).unwrap_or(Duration::MAX)
    }
}

/// Problem of a file without a current context.
const NO_CONTEXT: &str = "it has no current context\n\
                          hint: set one: kubectl config use-context NAME --kubeconfig FILE";

/// Choice of a cluster and its credentials within kubeconfigs, as by kubectl's flags. By
/// default the current context has both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextChoice {
    pub context: Option<String>,
    /// Name of a cluster, instead of that of the context.
    pub cluster: Option<String>,
    /// Name of a user, instead of that of the context.
    pub user: Option<String>,
}

/// Returns the configuration of a context, and the proxy that its cluster names. Of several files,
/// the first one with a name decides, as in kubectl.
pub(super) async fn from_kubeconfigs(
    paths: &[PathBuf],
    choice: &ContextChoice,
    master: Option<&str>,
) -> Result<(Config, Option<Proxy>), ClientConfigError> {
    let unusable = |source| ClientConfigError::Kubeconfig {
        paths: paths.to_vec(),
        source,
    };
    let mut kubeconfig = Kubeconfig::default();
    for path in paths {
        let next = read(path).map_err(|error| ClientConfigError::Kubeconfig {
            paths: vec![path.clone()],
            source: unreadable(error),
        })?;
        let merged = kubeconfig.merge(next);
        kubeconfig = merged.map_err(|error| unusable(error.into()))?;
    }
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
    if let Some(cluster) = chosen_cluster(&mut kubeconfig, choice) {
        root_cert_file = ca_file(cluster);
        // Without a value, the library reads the environment itself, and knows no `NO_PROXY`.
        let url = cluster.proxy_url.replace(UNUSED_PROXY_URL.to_owned());
        if let Some(url) = url.filter(|url| !url.is_empty()) {
            let parsed = Proxy::parse_url(&url);
            proxy = Some(parsed.map_err(|error| unusable(error.into()))?);
        }
    }
    let options = KubeConfigOptions {
        context: choice.context.clone(),
        cluster: choice.cluster.clone(),
        user: choice.user.clone(),
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| unusable(unknown_choice(error)))?;
    config.root_cert_file = root_cert_file;
    config.proxy_url = None;
    Ok((config, proxy))
}

/// Converts an error of one file; the error around it has the path already.
fn unreadable(error: KubeconfigError) -> BoxError {
    match error {
        KubeconfigError::ReadConfig(error, _) => error.into(),
        KubeconfigError::Parse(error) => syntax_error(&error).into(),
        other => other.into(),
    }
}

/// Converts an error of a choice: names what the kubeconfig lacks.
fn unknown_choice(error: KubeconfigError) -> BoxError {
    match error {
        KubeconfigError::CurrentContextNotSet => NO_CONTEXT.into(),
        KubeconfigError::LoadContext(name) if name.is_empty() => NO_CONTEXT.into(),
        KubeconfigError::LoadContext(name) => {
            format!("unknown context `{name}`\n{LIST_CONTEXTS}").into()
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            format!("unknown cluster `{name}`\n{LIST_CLUSTERS}").into()
        }
        other => unreadable(other),
    }
}

const LIST_CONTEXTS: &str = "hint: list them: kubectl config get-contexts";
const LIST_CLUSTERS: &str = "hint: list them: kubectl config get-clusters";

/// Parses an address with a host.
pub(super) fn parse_address(text: &str) -> Result<Uri, ClientConfigError> {
    let invalid = || ClientConfigError::Address(text.to_owned());
    let uri: Uri = text.parse().map_err(|_| invalid())?;
    uri.authority().is_some().then_some(uri).ok_or_else(invalid)
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

/// Returns the cluster of a choice.
fn chosen_cluster<'k>(
    kubeconfig: &'k mut Kubeconfig,
    choice: &ContextChoice,
) -> Option<&'k mut Cluster> {
    let chosen = choice.context.as_ref();
    let chosen = chosen.or(kubeconfig.current_context.as_ref())?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|context| &context.name == chosen)?;
    let of_context = &context.context.as_ref()?.cluster;
    let name = choice.cluster.as_ref().unwrap_or(of_context);
    let is_chosen = |named: &&mut NamedCluster| &named.name == name;
    let found = kubeconfig.clusters.iter_mut().find(is_chosen)?;
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

#[cfg(test)]
#[path = "tests/rate_limit.rs"]
mod tests;
