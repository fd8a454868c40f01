//! Client certificate from files that are rotated.
//!
//! When the files have changed, new requests use new connections with the new certificate. A
//! request over an old connection would fail once the old certificate has expired. Only an open
//! watch continues over its old connection, until it ends.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/transport/cert_rotation.go, `dynamicClientCert` (v1.36)
//!
//! Differs from upstream: the files are read before a request, at most every 50 s, instead of every
//! 5 min, and open watches are not interrupted.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use data_encoding::BASE64;
use http::{Request, Response, StatusCode};
use kube::Config;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use super::token_file::REREAD_INTERVAL;
use crate::watch::bounded;

/// Builds a client from a configuration.
type BuildClient<C> = Box<dyn Fn(&mut Config) -> Result<C, BoxError> + Send + Sync>;

/// HTTP client that is rebuilt when the files of its certificate change. Clones share it.
pub(super) struct RotatedClient<C>(Arc<ClientRotation<C>>);

struct ClientRotation<C> {
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
    /// Time of the next read.
    due: Instant,
    is_usable: bool,
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
            due: Instant::now() + REREAD_INTERVAL,
            is_usable: true,
        };
        Ok(Self(Arc::new(ClientRotation {
            build: Box::new(build),
            files,
            state: Mutex::new(state),
        })))
    }
}

impl<C: Clone> ClientRotation<C> {
    /// Returns the client for a request. If the files cannot be used, the previous certificate
    /// stays in use.
    fn client(&self) -> C {
        let mut state = self.state();
        let now = Instant::now();
        if let Some(files) = &self.files
            && now >= state.due
        {
            state.due = now + REREAD_INTERVAL;
            let result = files
                .read()
                .and_then(|pair| state.rebuild(pair, &self.build));
            let path = files.certificate.display();
            match result {
                Ok(CertificateChange::None) => state.is_usable = true,
                Ok(CertificateChange::Replaced) => {
                    state.is_usable = true;
                    tracing::info!(%path, "client certificate replaced");
                }
                // The files may be replaced one after the other, so this may be temporary.
                Err(error) if state.is_usable => {
                    state.is_usable = false;
                    tracing::warn!(%path, error, "cannot use the new client certificate: the previous one stays in use");
                }
                Err(_) => {}
            }
        }
        state.client.clone()
    }

    /// Makes the next request read the files again: the server may have rejected the certificate.
    fn expire(&self) {
        self.state().due = Instant::now();
    }

    fn state(&self) -> MutexGuard<'_, RotationState<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum CertificateChange {
    None,
    Replaced,
}

impl<C> RotationState<C> {
    fn rebuild(
        &mut self,
        pair: CertificatePair,
        build: &BuildClient<C>,
    ) -> Result<CertificateChange, BoxError> {
        if self.pair.as_ref() == Some(&pair) {
            return Ok(CertificateChange::None);
        }
        pair.install(&mut self.config);
        self.client = build(&mut self.config)?;
        self.pair = Some(pair);
        Ok(CertificateChange::Replaced)
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

fn read(path: &Path, what: &str) -> Result<String, BoxError> {
    bounded::regular_file_to_string(path, bounded::MAX_CONFIG_BYTES)
        .map_err(|error| format!("cannot read {what} `{}`: {error}", path.display()).into())
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

impl<C> Clone for RotatedClient<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C, A, B> Service<Request<A>> for RotatedClient<C>
where
    C: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send,
    A: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let rotation = Arc::clone(&self.0);
        Box::pin(async move {
            let client = rotation.client();
            let result = client.oneshot(request).await.map_err(Into::into);
            let is_rejected =
                |response: &Response<B>| response.status() == StatusCode::UNAUTHORIZED;
            if result.as_ref().map_or(true, is_rejected) {
                rotation.expire();
            }
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::future::{Ready, ready};

    use tempfile::TempDir;

    use super::*;

    /// Client that answers every request with its certificate.
    #[derive(Clone)]
    struct Echo(String);

    impl Service<Request<()>> for Echo {
        type Response = Response<String>;
        type Error = BoxError;
        type Future = Ready<Result<Self::Response, BoxError>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            let status = if self.0 == "expired" { 401 } else { 200 };
            let response = Response::builder().status(status).body(self.0.clone());
            ready(response.map_err(BoxError::from))
        }
    }

    /// Builds a client from any certificate but one.
    fn build(config: &mut Config) -> Result<Echo, BoxError> {
        let user = &config.auth_info;
        assert!(user.client_key_data.is_some());
        let data = user.client_certificate_data.as_ref().unwrap();
        let text = String::from_utf8(BASE64.decode(data.as_bytes()).unwrap()).unwrap();
        match text.as_str() {
            "broken" => Err("cannot be used".into()),
            _ => Ok(Echo(text)),
        }
    }

    fn rotated(folder: &TempDir) -> Result<RotatedClient<Echo>, BoxError> {
        let mut config = Config::new("https://test".parse().unwrap());
        let path = |name| Some(folder.path().join(name).to_str().unwrap().to_owned());
        config.auth_info.client_certificate = path("certificate");
        config.auth_info.client_key = path("key");
        RotatedClient::new(config, build)
    }

    fn write(folder: &TempDir, certificate: &str) {
        fs::write(folder.path().join("certificate"), certificate).unwrap();
        fs::write(folder.path().join("key"), "key").unwrap();
    }

    async fn presented(client: &RotatedClient<Echo>) -> String {
        let response = client.clone().call(Request::new(())).await.unwrap();
        response.into_body()
    }

    #[tokio::test(start_paused = true)]
    async fn a_rotated_certificate_is_used_after_a_minute_or_after_a_401() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder, "one");
        let client = rotated(&folder).unwrap();
        write(&folder, "two");
        assert_eq!(presented(&client).await, "one");
        tokio::time::advance(REREAD_INTERVAL / 2).await;
        assert_eq!(presented(&client).await, "one");
        tokio::time::advance(REREAD_INTERVAL / 2).await;
        assert_eq!(presented(&client).await, "two");
        write(&folder, "expired");
        tokio::time::advance(REREAD_INTERVAL).await;
        assert_eq!(presented(&client).await, "expired");
        write(&folder, "three");
        assert_eq!(presented(&client).await, "three");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unusable_certificate_leaves_the_last_one_in_use() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder, "one");
        let client = rotated(&folder).unwrap();
        let log = CountWarnings::default();
        let _guard = tracing::subscriber::set_default(log.clone());
        for name in ["certificate", "key"] {
            fs::remove_file(folder.path().join(name)).unwrap();
            for _ in 0..3 {
                tokio::time::advance(REREAD_INTERVAL).await;
                assert_eq!(presented(&client).await, "one");
            }
        }
        write(&folder, "broken");
        tokio::time::advance(REREAD_INTERVAL).await;
        assert_eq!(presented(&client).await, "one");
        // All of that is one warning.
        assert_eq!(log.warnings(), 1);
        write(&folder, "two");
        tokio::time::advance(REREAD_INTERVAL).await;
        assert_eq!(presented(&client).await, "two");
        write(&folder, "broken");
        tokio::time::advance(REREAD_INTERVAL).await;
        assert_eq!(presented(&client).await, "two");
        assert_eq!(log.warnings(), 2);
    }

    #[test]
    fn an_unreadable_certificate_is_an_error_at_startup() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certificate");
        let error = rotated(&folder).err().unwrap();
        let expected = format!("cannot read client certificate `{}`: ", path.display());
        assert!(error.to_string().starts_with(&expected), "{error}");
    }

    /// Counts the warnings that are logged.
    #[derive(Clone, Default)]
    struct CountWarnings(Arc<Mutex<usize>>);

    impl CountWarnings {
        fn warnings(&self) -> usize {
            *self.0.lock().unwrap()
        }
    }

    impl tracing::Subscriber for CountWarnings {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

        fn event(&self, event: &tracing::Event<'_>) {
            if *event.metadata().level() == tracing::Level::WARN {
                *self.0.lock().unwrap() += 1;
            }
        }

        fn enter(&self, _: &tracing::span::Id) {}

        fn exit(&self, _: &tracing::span::Id) {}
    }
}
