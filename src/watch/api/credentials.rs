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
//! Differs from upstream: certificate files are read again before the first request after 50 s,
//! after a failed request and after the status 401; upstream reads them every 5 min and, if they
//! have changed, closes all connections, open watches included. A token file is read again before
//! the first request after 50 s and after a 401.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::BASE64;
use http::header::HeaderValue;
use http::{Request, Response, StatusCode};
use kube::Config;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use crate::watch::bounded;

/// Maximum time between two reads of a file while requests are sent: a minute less ten seconds, as
/// for tokens in client-go.
pub(super) const REREAD_INTERVAL: Duration = Duration::from_secs(50);

/// Time of the next read of a file.
#[derive(Debug)]
struct NextRead(Instant);

impl NextRead {
    /// Returns the time of the second read, after a first one that has succeeded.
    fn new() -> Self {
        Self(Instant::now() + REREAD_INTERVAL)
    }

    /// Reports whether to read the file now. If so, the next read is due after [`REREAD_INTERVAL`].
    fn take_due(&mut self) -> bool {
        let is_due = Instant::now() >= self.0;
        if is_due {
            *self = Self::new();
        }
        is_due
    }

    fn mark_due(&mut self) {
        self.0 = Instant::now();
    }
}

/// File with a token, and the last valid token that was read from it.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    token: Mutex<CachedToken>,
}

#[derive(Debug)]
struct CachedToken {
    /// Value of `Authorization`, from the last read that succeeded.
    header: HeaderValue,
    next_read: NextRead,
}

impl TokenFile {
    /// Takes the token file out of a configuration. `None` if its token comes from elsewhere.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no valid token.
    pub(super) fn take(config: &mut Config) -> Result<Option<Self>, BoxError> {
        let user = &mut config.auth_info;
        let is_basic = user.username.is_some() && user.password.is_some();
        if is_basic || user.token.is_some() || user.auth_provider.is_some() {
            return Ok(None);
        }
        let Some(path) = user.token_file.take().map(PathBuf::from) else {
            return Ok(None);
        };
        let token = Mutex::new(CachedToken {
            header: read_token(&path)?,
            next_read: NextRead::new(),
        });
        Ok(Some(Self { path, token }))
    }

    /// Returns the header for a request. If the file cannot be used, the last token stays in use.
    pub(super) fn header(&self) -> HeaderValue {
        let mut token = self.token();
        if token.next_read.take_due() {
            match read_token(&self.path) {
                Ok(header) => token.header = header,
                Err(error) => {
                    let path = self.path.display();
                    tracing::warn!(%path, error, "cannot read the token file: the last token stays in use");
                }
            }
        }
        token.header.clone()
    }

    /// Makes the next request read the file again, after the server has rejected the token.
    pub(super) fn expire(&self) {
        self.token().next_read.mark_due();
    }

    fn token(&self) -> MutexGuard<'_, CachedToken> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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

/// HTTP client that is rebuilt when the files of its certificate change.
pub(super) struct RotatedClient<C> {
    build: BuildClient<C>,
    /// `None` if there is no client certificate, or one that is not in files.
    files: Option<CertificateFiles>,
    state: Mutex<RotationState<C>>,
}

struct RotationState<C> {
    /// Cheap to clone: clones share their connections.
    client: C,
    config: Config,
    /// Contents of the files from which `client` was built.
    pair: Option<CertificatePair>,
    next_read: NextRead,
}

impl<C: Clone> RotatedClient<C> {
    /// Builds the first client.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or certificate and key cannot be used.
    pub(super) fn new(
        mut config: Config,
        build: impl Fn(&mut Config) -> Result<C, BoxError> + Send + Sync + 'static,
    ) -> Result<Self, BoxError> {
        let files = CertificateFiles::of(&config);
        let pair = files.as_ref().map(CertificateFiles::read).transpose()?;
        if let Some(pair) = &pair {
            pair.install(&mut config);
        }
        let state = RotationState {
            client: build(&mut config)?,
            config,
            pair,
            next_read: NextRead::new(),
        };
        Ok(Self {
            build: Box::new(build),
            files,
            state: Mutex::new(state),
        })
    }

    /// Sends a request with the present certificate.
    pub(super) async fn send<A, B>(&self, request: Request<A>) -> Result<Response<B>, BoxError>
    where
        C: Service<Request<A>, Response = Response<B>>,
        C::Error: Into<BoxError>,
    {
        let client = self.client();
        let result = client.oneshot(request).await.map_err(Into::into);
        let is_rejected = |response: &Response<B>| response.status() == StatusCode::UNAUTHORIZED;
        if result.as_ref().map_or(true, is_rejected) {
            // The server may have rejected the certificate: the next request reads the files again.
            self.state().next_read.mark_due();
        }
        result
    }

    /// Returns the client for a request. If the files cannot be used, the previous certificate
    /// stays in use.
    fn client(&self) -> C {
        let mut state = self.state();
        if let Some(files) = &self.files
            && state.next_read.take_due()
            // The files may be replaced one after the other, so an error may be temporary.
            && let Err(error) = state.update(files, &self.build)
        {
            let path = files.certificate.display();
            tracing::warn!(%path, error, "cannot use the new client certificate: the previous one stays in use");
        }
        state.client.clone()
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
