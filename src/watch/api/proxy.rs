//! Chooses the forward proxy (HTTP CONNECT or SOCKS) that is used to reach the API server, and
//! opens connections through it.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/clientcmd/client_config.go, `ClientConfig` (v1.36);
//! golang.org/x/net/http/httpproxy/proxy.go, `proxyForURL` (v0.49)
//!
//! Differs from upstream: plain HTTP is tunneled through the proxy as well, so that a watch is one
//! connection to the server; an invalid proxy of the environment is logged; and `tls-server-name`
//! is the name of the server only, while client-go expects it of an `https` proxy as well.

use std::error::Error;
use std::io;
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

use super::no_proxy::bypasses_proxy;

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
    /// Returns the proxy for a server; `None` to connect directly, also if the address is invalid.
    pub(super) fn proxy_for(&self, server: &Uri) -> Option<Proxy> {
        let (variable, text) = if server.scheme() == Some(&Scheme::HTTP) {
            ("HTTP_PROXY", &self.http)
        } else {
            ("HTTPS_PROXY", &self.https)
        };
        let (host, port) = (server.host()?, port_of(server));
        if text.is_empty() || bypasses_proxy(&self.no_proxy, host, port) {
            return None;
        }
        let proxy = Proxy::parse(text);
        if proxy.is_none() {
            tracing::warn!(%server, "{variable} is not a valid proxy address: connecting directly");
        }
        proxy
    }
}

/// Proxy whose address is valid. No connection is opened yet.
#[derive(Debug, Clone)]
pub(super) struct Proxy(Intercept);

impl Proxy {
    /// Parses `[SCHEME://][USER:PASSWORD@]HOST[:PORT]`; the default scheme is `http`. `None` if the
    /// address is invalid, or the scheme neither `http`, `https`, `socks5` nor `socks5h`.
    fn parse(text: &str) -> Option<Self> {
        let server = Uri::from_static("http://server");
        let intercept = Matcher::builder().all(text).build().intercept(&server)?;
        let scheme = intercept.uri().scheme_str()?;
        matches!(scheme, "http" | "https" | "socks5" | "socks5h").then_some(Self(intercept))
    }

    /// Parses `proxy-url` of a kubeconfig, which must have a scheme.
    pub(super) fn parse_url(text: &str) -> Result<Self, InvalidProxyUrl> {
        let url = text.contains("://").then(|| Self::parse(text)).flatten();
        url.ok_or_else(|| {
            // A password may stand before the host.
            let shown = text.rsplit_once('@').map_or(text, |(_, host)| host);
            InvalidProxyUrl(shown.to_owned())
        })
    }

    /// Reports whether the certificate of the proxy is verified.
    pub(super) fn uses_tls(&self) -> bool {
        self.0.uri().scheme() == Some(&Scheme::HTTPS)
    }

    /// Returns the URL without credentials, for logs and errors.
    fn display_url(&self) -> String {
        self.0.uri().to_string().trim_end_matches('/').to_owned()
    }

    /// Returns host and port to connect to. The scheme says only whether TLS is used.
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

/// Error of a `proxy-url` that is no address of a supported proxy.
#[derive(Debug, thiserror::Error)]
#[error("proxy-url `{0}` is not a valid URL of an http, https or socks5 proxy")]
pub(crate) struct InvalidProxyUrl(String);

/// Connector to the API server, directly or through a proxy. TLS with the server is not part of it.
#[derive(Clone)]
pub(super) enum ServerConnector {
    /// Connects directly.
    Direct(HttpConnector),
    /// Connects through an HTTP proxy, with CONNECT.
    Http(Tunnel<HttpsConnector<HttpConnector>>, String),
    /// Connects through a SOCKS proxy, which resolves the name of the server.
    Socks(SocksV5<HttpsConnector<HttpConnector>>, String),
}

impl ServerConnector {
    /// Makes a connector. `tls` is for the connection to an `https` proxy: as in client-go, with
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

/// Error of a connection through a proxy: the proxy is down, or refuses the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot connect through proxy `{proxy}`: {cause}")]
pub(crate) struct ProxyError {
    /// URL without credentials.
    proxy: String,
    cause: ProxyCause,
}

impl ProxyError {
    /// Reports whether the proxy has a certificate that the certificate authority of the
    /// configuration did not sign, or of another name, or expired.
    pub(crate) fn is_of_certificate(&self) -> bool {
        matches!(self.cause, ProxyCause::Certificate(_))
    }
}

/// Cause of a [`ProxyError`], by what an operator does about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum ProxyCause {
    #[error("the certificate of the proxy is not trusted: {0}")]
    Certificate(String),
    #[error("{0}")]
    Other(String),
}

impl From<&str> for ProxyCause {
    fn from(text: &str) -> Self {
        Self::Other(text.to_owned())
    }
}

/// Error of the library for a proxy that answers CONNECT.
type TunnelError = <Tunnel<HttpsConnector<HttpConnector>> as Service<Uri>>::Error;

fn tunnel_cause(error: &TunnelError) -> ProxyCause {
    match error {
        TunnelError::ProxyAuthRequired => "the proxy requires a user and a password".into(),
        TunnelError::TunnelUnsuccessful => "the proxy refused the connection".into(),
        TunnelError::TunnelUnexpectedEof => "the proxy closed the connection".into(),
        other => innermost(other),
    }
}

/// Error of the library for a SOCKS proxy.
type SocksError = <SocksV5<HttpsConnector<HttpConnector>> as Service<Uri>>::Error;

fn socks_cause(error: &SocksError) -> ProxyCause {
    match error {
        // Its `source` has no cause.
        SocksError::Inner(cause) => innermost(&**cause),
        other => ProxyCause::Other(other.to_string()),
    }
}

/// Returns the innermost cause; the errors around it only name libraries.
fn innermost(error: &(dyn Error + 'static)) -> ProxyCause {
    if let Some(TlsError::InvalidCertificate(problem)) = error.downcast_ref() {
        return ProxyCause::Certificate(problem.to_string());
    }
    // `io::Error::source` skips the error inside, which only `get_ref` returns.
    let inside = error.downcast_ref().and_then(io::Error::get_ref);
    match inside
        .map(|inside| inside as &(dyn Error + 'static))
        .or_else(|| error.source())
    {
        Some(cause) => innermost(cause),
        None => ProxyCause::Other(error.to_string()),
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
        let server = with_port(&server, scheme, port_of(&server));
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

fn port_of(server: &Uri) -> u16 {
    let is_plain = server.scheme() == Some(&Scheme::HTTP);
    let default_port = if is_plain { 80 } else { 443 };
    server.port_u16().unwrap_or(default_port)
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
mod tests {
    use super::*;

    fn environment(https: &str, http: &str, no_proxy: &str) -> ProxyEnvironment {
        ProxyEnvironment {
            https: https.to_owned(),
            http: http.to_owned(),
            no_proxy: no_proxy.to_owned(),
        }
    }

    #[test]
    fn the_proxy_of_the_environment_depends_on_scheme_and_server() {
        let both = environment("http://secure:3128", "plain:3129", "direct.test");
        for (server, expected) in [
            ("https://api.test:6443/", Some("http://secure:3128")),
            ("http://api.test/", Some("http://plain:3129")),
            ("https://direct.test:6443/", None),
            ("https://127.0.0.1:6443/", None),
        ] {
            let proxy = both.proxy_for(&server.parse().unwrap());
            assert_eq!(proxy.map(|proxy| proxy.display_url()).as_deref(), expected);
        }
        // One without the other, and addresses that are none.
        let server: Uri = "https://api.test:6443/".parse().unwrap();
        for https in ["", "socks4://proxy:1080", "http://", "a b"] {
            let environment = environment(https, "http://plain:3129", "");
            assert!(environment.proxy_for(&server).is_none(), "{https}");
        }
    }

    #[test]
    fn default_ports_of_proxies_are_those_of_their_schemes() {
        for (url, expected) in [
            ("http://user:secret@proxy", "http://proxy:80/"),
            ("https://proxy/path", "https://proxy:443/"),
            ("socks5://proxy", "http://proxy:1080/"),
            ("socks5h://[fd00::1]:7", "http://[fd00::1]:7/"),
        ] {
            let proxy = Proxy::parse_url(url).unwrap();
            assert_eq!(proxy.tcp_endpoint().to_string(), expected);
            assert!(!proxy.display_url().contains("secret"));
        }
    }

    #[test]
    fn an_invalid_proxy_url_is_an_error_without_its_password() {
        for (url, shown) in [
            ("ftp://user:secret@proxy", "proxy"),
            ("proxy:3128", "proxy:3128"),
            ("http://", "http://"),
        ] {
            let error = Proxy::parse_url(url).unwrap_err().to_string();
            let expected =
                format!("proxy-url `{shown}` is not a valid URL of an http, https or socks5 proxy");
            assert_eq!(error, expected);
        }
    }
}
