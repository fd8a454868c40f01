//! Bearer token from a file that is rotated.
//!
//! The layer of `kube` is not used because it sends the file unchanged, so that a line end makes
//! every request fail, and because it sends an old token for up to a minute after the server has
//! rejected it.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/transport/token_source.go, `NewCachedFileTokenSource` (v1.36)

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Response, StatusCode};
use kube::Config;
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

use crate::watch::bounded;

/// Time between two reads of the file: a minute less ten seconds, as in client-go.
const REREAD_INTERVAL: Duration = Duration::from_secs(50);

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
    /// Time of the next read.
    due: Instant,
    is_readable: bool,
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
            header: read(&path)?,
            due: Instant::now() + REREAD_INTERVAL,
            is_readable: true,
        });
        Ok(Some(Self { path, token }))
    }

    /// Returns the header for a request. If the file cannot be read, the last token stays in use.
    fn header(&self) -> HeaderValue {
        let mut token = self.token();
        let now = Instant::now();
        if now >= token.due {
            token.due = now + REREAD_INTERVAL;
            match read(&self.path) {
                Ok(header) => (token.header, token.is_readable) = (header, true),
                Err(error) if token.is_readable => {
                    token.is_readable = false;
                    let path = self.path.display();
                    tracing::warn!(%path, error, "cannot read the token file: the last token stays in use");
                }
                Err(_) => {}
            }
        }
        token.header.clone()
    }

    /// Makes the next request read the file again, after the server has rejected the token.
    fn expire(&self) {
        self.token().due = Instant::now();
    }

    fn token(&self) -> MutexGuard<'_, CachedToken> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &std::path::Path) -> Result<HeaderValue, BoxError> {
    let text = bounded::file_to_string(path, bounded::MAX_CONFIG_BYTES)
        .map_err(|error| format!("cannot read token file `{}`: {error}", path.display()))?;
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

/// Layer that adds the token to each request.
#[derive(Debug, Clone)]
pub(super) struct TokenLayer(Arc<TokenFile>);

impl From<TokenFile> for TokenLayer {
    fn from(file: TokenFile) -> Self {
        Self(Arc::new(file))
    }
}

/// Service whose requests have a token.
#[derive(Debug, Clone)]
pub(super) struct WithToken<S> {
    inner: S,
    file: Arc<TokenFile>,
}

impl<S> Layer<S> for TokenLayer {
    type Service = WithToken<S>;

    fn layer(&self, inner: S) -> WithToken<S> {
        let file = Arc::clone(&self.0);
        WithToken { inner, file }
    }
}

impl<S, A, B> Service<Request<A>> for WithToken<S>
where
    S: Service<Request<A>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, self.file.header());
        let response = self.inner.call(request);
        let file = Arc::clone(&self.file);
        Box::pin(async move {
            let response = response.await?;
            if response.status() == StatusCode::UNAUTHORIZED {
                file.expire();
            }
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn config(path: &std::path::Path) -> Config {
        let mut config = Config::new("http://test".parse().unwrap());
        config.auth_info.token_file = Some(path.to_str().unwrap().to_owned());
        config
    }

    /// Sends a request to a server that accepts one token. Returns the status of the response.
    async fn send(layer: &TokenLayer, accepted: &'static str) -> u16 {
        let service = tower::service_fn(move |request: Request<()>| {
            let is_accepted = request.headers()[AUTHORIZATION] == format!("Bearer {accepted}");
            let code = if is_accepted { 200 } else { 401 };
            let answer = Response::builder().status(code).body(());
            std::future::ready(answer.map_err(BoxError::from))
        });
        let answer = layer.layer(service).call(Request::new(())).await;
        answer.unwrap().status().as_u16()
    }

    #[tokio::test(start_paused = true)]
    async fn a_rotated_token_is_read_after_a_minute_or_after_a_401() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, " old\n").unwrap();
        let file = TokenFile::take(&mut config(&path)).unwrap().unwrap();
        let layer = TokenLayer::from(file);
        assert_eq!(send(&layer, "old").await, 200);
        fs::write(&path, "new\n").unwrap();
        assert_eq!(send(&layer, "old").await, 200);
        assert_eq!(send(&layer, "new").await, 401);
        assert_eq!(send(&layer, "new").await, 200);
        fs::write(&path, "next").unwrap();
        tokio::time::advance(REREAD_INTERVAL).await;
        assert_eq!(send(&layer, "next").await, 200);
        // If the file is missing, empty or invalid, the last token stays in use.
        for content in [None, Some(""), Some("two\nlines")] {
            match content {
                None => fs::remove_file(&path).unwrap(),
                Some(content) => fs::write(&path, content).unwrap(),
            }
            tokio::time::advance(REREAD_INTERVAL).await;
            assert_eq!(send(&layer, "next").await, 200, "{content:?}");
        }
        fs::write(&path, "last").unwrap();
        assert_eq!(send(&layer, "last").await, 401);
        assert_eq!(send(&layer, "last").await, 200);
    }

    #[test]
    fn a_token_file_without_a_token_is_an_error_at_startup() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let shown = path.display().to_string();
        for (content, expected) in [
            (
                None,
                format!("cannot read token file `{shown}`: No such file or directory (os error 2)"),
            ),
            (Some(" \n"), format!("token file `{shown}` is empty")),
            (
                Some("two\nlines"),
                format!("token file `{shown}` must hold one line of text"),
            ),
        ] {
            if let Some(content) = content {
                fs::write(&path, content).unwrap();
            }
            let error = TokenFile::take(&mut config(&path)).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn other_credentials_take_precedence_over_the_token_file() {
        let mut config = config(std::path::Path::new("/absent"));
        config.auth_info.token = Some("inline".to_owned().into());
        assert!(TokenFile::take(&mut config).unwrap().is_none());
    }
}
