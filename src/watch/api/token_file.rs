//! Bearer token from a file that is replaced now and then.
//!
//! The library's own is not used because it sends the file as it is, so that a line end makes every
//! request fail, and because it sends a replaced token for up to a minute after the server has
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

/// Time between two reads of the file: a minute less ten seconds. Client-go's.
const LASTING: Duration = Duration::from_secs(50);

/// A file with a token, and the last token that could be read from it.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    token: Mutex<Token>,
}

#[derive(Debug)]
struct Token {
    /// Token of the last read that succeeded.
    header: HeaderValue,
    /// When the file is to be read again.
    due: Instant,
    is_readable: bool,
}

impl TokenFile {
    /// Takes the token file out of a configuration, if that is where its token comes from.
    ///
    /// # Errors
    ///
    /// The file holds no token.
    pub(super) fn take(config: &mut Config) -> Result<Option<Self>, BoxError> {
        let user = &mut config.auth_info;
        let is_basic = user.username.is_some() && user.password.is_some();
        if is_basic || user.token.is_some() || user.auth_provider.is_some() {
            return Ok(None);
        }
        let Some(path) = user.token_file.take().map(PathBuf::from) else {
            return Ok(None);
        };
        let token = Mutex::new(Token {
            header: read(&path)?,
            due: Instant::now() + LASTING,
            is_readable: true,
        });
        Ok(Some(Self { path, token }))
    }

    /// The header for a request now. A file that cannot be read leaves the last token in use.
    fn header(&self) -> HeaderValue {
        let mut token = self.token();
        let now = Instant::now();
        if now >= token.due {
            token.due = now + LASTING;
            match read(&self.path) {
                Ok(header) => (token.header, token.is_readable) = (header, true),
                Err(error) if token.is_readable => {
                    token.is_readable = false;
                    let path = self.path.display();
                    tracing::warn!(%path, error, "cannot read the token: the last one stays in use");
                }
                Err(_) => {}
            }
        }
        token.header.clone()
    }

    /// Reads the file again before the next request: the server has rejected the token.
    fn rejected(&self) {
        self.token().due = Instant::now();
    }

    fn token(&self) -> MutexGuard<'_, Token> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &std::path::Path) -> Result<HeaderValue, BoxError> {
    let text = bounded::file_to_string(path, bounded::LARGEST_CONFIGURATION)
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

/// Adds the token to each request.
#[derive(Debug, Clone)]
pub(super) struct TokenLayer(Arc<TokenFile>);

impl From<TokenFile> for TokenLayer {
    fn from(file: TokenFile) -> Self {
        Self(Arc::new(file))
    }
}

/// A service whose requests have a token.
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
        let answer = self.inner.call(request);
        let file = Arc::clone(&self.file);
        Box::pin(async move {
            let answer = answer.await?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                file.rejected();
            }
            Ok(answer)
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

    /// Sends a request to a server that accepts one token. Returns the answer's status.
    async fn ask(layer: &TokenLayer, accepted: &'static str) -> u16 {
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
    async fn a_replaced_token_is_read_after_a_minute_or_when_it_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, " old\n").unwrap();
        let file = TokenFile::take(&mut config(&path)).unwrap().unwrap();
        let layer = TokenLayer::from(file);
        assert_eq!(ask(&layer, "old").await, 200);
        fs::write(&path, "new\n").unwrap();
        assert_eq!(ask(&layer, "old").await, 200);
        assert_eq!(ask(&layer, "new").await, 401);
        assert_eq!(ask(&layer, "new").await, 200);
        fs::write(&path, "next").unwrap();
        tokio::time::advance(LASTING).await;
        assert_eq!(ask(&layer, "next").await, 200);
        // Files that are gone, empty or no token leave the last one in use.
        for content in [None, Some(""), Some("two\nlines")] {
            match content {
                None => fs::remove_file(&path).unwrap(),
                Some(content) => fs::write(&path, content).unwrap(),
            }
            tokio::time::advance(LASTING).await;
            assert_eq!(ask(&layer, "next").await, 200, "{content:?}");
        }
        fs::write(&path, "last").unwrap();
        assert_eq!(ask(&layer, "last").await, 401);
        assert_eq!(ask(&layer, "last").await, 200);
    }

    #[test]
    fn a_file_without_a_token_is_an_error_at_the_start() {
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
    fn other_credentials_go_before_the_file() {
        let mut config = config(std::path::Path::new("/absent"));
        config.auth_info.token = Some("inline".to_owned().into());
        assert!(TokenFile::take(&mut config).unwrap().is_none());
    }
}
