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
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::HeaderValue;
use kube::Config;
use tokio::time::Instant;
use tower::BoxError;

use crate::watch::bounded;

/// Time between two reads of the file: a minute less ten seconds, as in client-go.
pub(super) const REREAD_INTERVAL: Duration = Duration::from_secs(50);

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
    pub(super) fn header(&self) -> HeaderValue {
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
    pub(super) fn expire(&self) {
        self.token().due = Instant::now();
    }

    fn token(&self) -> MutexGuard<'_, CachedToken> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &std::path::Path) -> Result<HeaderValue, BoxError> {
    let text = bounded::regular_file_to_string(path, bounded::MAX_CONFIG_BYTES)
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn config(path: &std::path::Path) -> Config {
        let mut config = Config::new("http://test".parse().unwrap());
        config.auth_info.token_file = Some(path.to_str().unwrap().to_owned());
        config
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
