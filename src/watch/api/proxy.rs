//! Chooses the forward proxy (HTTP CONNECT or SOCKS) that is used to reach the API server, and
//! opens connections through it.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/clientcmd/client_config.go, `ClientConfig` (v1.37);
//! golang.org/x/net/http/httpproxy/proxy.go, `proxyForURL`, `useProxy` (v0.49)
//!
//! Differs from upstream: `NO_PROXY` is matched by a library that follows curl, so that an entry
//! with a port matches nothing, and `.example.com` is also the domain itself; plain HTTP is
//! tunneled through the proxy as well, so that the proxy passes on the bytes of a watch, and cannot
//! buffer or end it as a response; an invalid proxy of the environment is logged; `tls-server-name`
//! is the name of the server only, while client-go expects it of an `https` proxy as well; and
//! names outside of ASCII in `NO_PROXY` are not converted to Punycode.

use std::error::Error;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use http::uri::{PathAndQuery, Scheme};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::rustls::{ClientConfig, Error as TlsError};
use tower::{BoxError, Service, ServiceExt};

use super::error::{ProxyError, cause};

/// Proxy settings of the environment, each as its variable has it; empty if not set.
#[derive(Clone, Default)]
pub struct ProxyEnvironment {
    /// Proxy for servers with TLS: `HTTPS_PROXY`.
    pub https: String,
    /// Proxy for servers without TLS: `HTTP_PROXY`.
    pub http: String,
    /// Servers that are connected to directly: `NO_PROXY`.
    pub no_proxy: String,
}

impl ProxyEnvironment {
    /// Returns the proxy for a server; `None` to connect directly, also if the proxy's address is
    /// invalid.
    pub(super) fn proxy_for(&self, server: &Uri) -> Option<Proxy> {
        let (variable, text) = if server.scheme() == Some(&Scheme::HTTP) {
            ("HTTP_PROXY", &self.http)
        } else {
            ("HTTPS_PROXY", &self.https)
        };
        if text.is_empty() || self.bypasses(server) {
            return None;
        }
        let proxy = Proxy::parse(text);
        if proxy.is_none() {
            tracing::warn!(%server, "{variable} is not a valid proxy address: connecting directly");
        }
        proxy
    }

    /// Reports whether connections to a server do not use the proxy. `localhost` and loopback
    /// addresses never use it.
    ///
    /// `NO_PROXY` has IP addresses, CIDRs and domains, separated by commas. A domain includes all
    /// names below it, and `*` is everything, as is a server without a host.
    fn bypasses(&self, server: &Uri) -> bool {
        let host = server.host().unwrap_or("localhost");
        let ip: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        let is_local = ip.map_or(host.eq_ignore_ascii_case("localhost"), |ip| {
            ip.to_canonical().is_loopback()
        });
        // The library applies `*` to names only, and knows no `*.`.
        let is_all = self.no_proxy.split(',').any(|entry| entry.trim() == "*");
        let list = self.no_proxy.replace("*.", ".");
        let matcher = Matcher::builder().all("http://proxy").no(list).build();
        is_local || is_all || matcher.intercept(server).is_none()
    }
}

/// Proxy whose address is valid. No connection is opened yet.
#[derive(Debug, Clone)]
pub(super) struct Proxy(Intercept);

impl Proxy {
    /// Parses `[SCHEME://][USER:PASSWORD@]HOST[:PORT]`; the default scheme is `http`. `None` if the
    /// address is invalid, or the scheme neither `http`, `https`, `socks5` nor `socks5h`.
    fn parse(text: &str) -> Option<Self> {
        // The library parses an address only as part of a matcher; this one matches any server.
        let server = Uri::from_static("http://server");
        let intercept = Matcher::builder().all(text).build().intercept(&server)?;
        let scheme = intercept.uri().scheme_str()?;
        matches!(scheme, "http" | "https" | "socks5" | "socks5h").then_some(Self(intercept))
    }

    /// Parses `proxy-url` of a kubeconfig, which must have a scheme.
    pub(super) fn parse_url(text: &str) -> Result<Self, InvalidProxyUrl> {
        let url = text.contains("://").then(|| Self::parse(text)).flatten();
        url.ok_or_else(|| {
            // A password may come before the host.
            let shown = text.rsplit_once('@').map_or(text, |(_, host)| host);
            InvalidProxyUrl(shown.to_owned())
        })
    }

    pub(super) fn uses_tls(&self) -> bool {
        self.0.uri().scheme() == Some(&Scheme::HTTPS)
    }

    /// Returns the URL without credentials, for logs and errors.
    fn display_url(&self) -> String {
        self.0.uri().to_string().trim_end_matches('/').to_owned()
    }

    /// Returns the URL with the host and port to connect to. Its scheme is `https` if TLS is used,
    /// and otherwise `http`, also for SOCKS.
    fn tcp_endpoint(&self) -> Uri {
        let uri = self.0.uri();
        let (scheme, default_port) = match uri.scheme_str() {
            Some("https") => (Scheme::HTTPS, 443),
            Some("http") => (Scheme::HTTP, 80),
            _ => (Scheme::HTTP, 1080),
        };
        with_port(uri, scheme, uri.port_u16().unwrap_or(default_port))
    }
}

/// Error of a `proxy-url` that is not the URL of a supported proxy.
#[derive(Debug, thiserror::Error)]
#[error("proxy-url `{0}` is not a valid URL of an http, https or socks5 proxy")]
pub(super) struct InvalidProxyUrl(String);

/// Connector to the API server, directly or through a proxy. TLS with the server is not part of it.
#[derive(Clone)]
pub(super) enum ServerConnector {
    Direct(HttpConnector),
    /// Connects through an HTTP proxy, with CONNECT. The text is the URL of the proxy for errors.
    Http(Tunnel<HttpsConnector<HttpConnector>>, String),
    /// Connects through a SOCKS proxy, which resolves the name of the server. The text is the URL
    /// of the proxy for errors.
    Socks(SocksV5<HttpsConnector<HttpConnector>>, String),
}

impl ServerConnector {
    /// Returns a connector. `tls` is for the connection to an `https` proxy: as in client-go, with
    /// the certificate authority that the configuration has for the server.
    pub(super) fn new(tcp: HttpConnector, proxy: Option<&Proxy>, tls: ClientConfig) -> Self {
        let Some(proxy) = proxy else {
            return Self::Direct(tcp);
        };
        let to_proxy = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let (url, endpoint, intercept) = (proxy.display_url(), proxy.tcp_endpoint(), &proxy.0);
        if url.starts_with("socks") {
            let socks = SocksV5::new(endpoint, to_proxy);
            let socks = match intercept.raw_auth() {
                Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
                None => socks,
            };
            return Self::Socks(socks, url);
        }
        let tunnel = Tunnel::new(endpoint, to_proxy);
        let tunnel = match intercept.basic_auth() {
            Some(header) => tunnel.with_auth(header.clone()),
            None => tunnel,
        };
        Self::Http(tunnel, url)
    }
}

/// Error of the library for an HTTP proxy.
type TunnelError = <Tunnel<HttpsConnector<HttpConnector>> as Service<Uri>>::Error;

fn tunnel_cause(error: &TunnelError) -> String {
    match error {
        TunnelError::ProxyAuthRequired => "the proxy requires a user and a password".to_owned(),
        TunnelError::TunnelUnsuccessful => "the proxy refused the connection".to_owned(),
        TunnelError::TunnelUnexpectedEof => "the proxy closed the connection".to_owned(),
        other => innermost(other),
    }
}

/// Error of the library for a SOCKS proxy.
type SocksError = <SocksV5<HttpsConnector<HttpConnector>> as Service<Uri>>::Error;

fn socks_cause(error: &SocksError) -> String {
    match error {
        // The library's `source` returns no cause of this error.
        SocksError::Inner(cause) => innermost(&**cause),
        other => other.to_string(),
    }
}

/// Returns the innermost cause; the errors around it only name libraries.
fn innermost(error: &(dyn Error + 'static)) -> String {
    if let Some(TlsError::InvalidCertificate(problem)) = error.downcast_ref() {
        return format!("the certificate of the proxy is not trusted: {problem}");
    }
    match cause(error) {
        Some(cause) => innermost(cause),
        None => error.to_string(),
    }
}

impl Service<Uri> for ServerConnector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let connector = self.clone();
        // The library's default is 443 for HTTP as well.
        let scheme = server.scheme().cloned().unwrap_or(Scheme::HTTPS);
        let default_port = if scheme == Scheme::HTTP { 80 } else { 443 };
        let port = server.port_u16().unwrap_or(default_port);
        let server = with_port(&server, scheme, port);
        Box::pin(async move {
            let (result, proxy) = match connector {
                Self::Direct(tcp) => {
                    return Ok(MaybeHttpsStream::Http(tcp.oneshot(server).await?));
                }
                Self::Http(tunnel, proxy) => {
                    let result = tunnel.oneshot(server).await;
                    (result.map_err(|error| tunnel_cause(&error)), proxy)
                }
                Self::Socks(socks, proxy) => {
                    let result = socks.oneshot(server).await;
                    (result.map_err(|error| socks_cause(&error)), proxy)
                }
            };
            result.map_err(|cause| ProxyError { proxy, cause }.into())
        })
    }
}

/// Returns an address of the same host with a scheme and a port.
fn with_port(uri: &Uri, scheme: Scheme, port: u16) -> Uri {
    let host = uri.host().unwrap_or_default();
    let changed = Uri::builder()
        .scheme(scheme)
        .authority(format!("{host}:{port}"))
        .path_and_query(PathAndQuery::from_static("/"))
        .build();
    // Never fails for the host of a valid URI.
    changed.unwrap_or_else(|_| uri.clone())
}

#[cfg(test)]
#[path = "tests/proxy.rs"]
mod tests;
