//! Credentials in files that are rotated: the bearer token, and the client certificate with its
//! key.
//!
//! The token layer of `kube` is not used because it sends the file unchanged, so that a line end
//! makes every request fail, and because it sends an old token for up to a minute after the server
//! has rejected it.
//!
//! When the certificate files have changed, new requests use new connections with the new
//! certificate. A request over an old connection would fail once the old certificate has expired.
//! Only an open watch continues over its old connection, until it ends.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/transport/token_source.go, `NewCachedFileTokenSource` (v1.37)
//! Upstream: k8s.io/client-go/transport/cert_rotation.go, `dynamicClientCert` (v1.37)
//!
//! Differs from upstream: files are read again before the first request after 50 s, after a failed
//! request and after the status 401. Upstream reads those of a certificate every 5 min and, if they
//! have changed, closes all connections, open watches included.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::BASE64;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Response, StatusCode};
use kube::Config;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use crate::watch::bounded;

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
    state: Mutex<RotationState<C>>,
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
            state: Mutex::new(state),
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
            self.state().next_read = Instant::now();
        }
        result
    }

    /// Returns the client and the token for a request. If a file cannot be used, its last content
    /// stays in use.
    fn current(&self) -> (C, Option<HeaderValue>) {
        let mut state = self.state();
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

    fn state(&self) -> MutexGuard<'_, RotationState<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
