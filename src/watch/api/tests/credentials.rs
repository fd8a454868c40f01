//! Credentials in files that are rotated.

use std::fs;
use std::future::{Ready, ready};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use data_encoding::BASE64;
use http::header::AUTHORIZATION;
use http::{Request, Response};
use kube::Config;
use tempfile::TempDir;
use tower::{BoxError, Service};

use super::super::transport::{REREAD_INTERVAL, RotatedClient};
use crate::logged::warnings;

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
        ready(Ok(Response::new(self.0.clone())))
    }
}

/// Builds a client from no certificate, or from any but one.
fn build(config: &mut Config) -> Result<Echo, BoxError> {
    let user = &config.auth_info;
    let Some(data) = &user.client_certificate_data else {
        return Ok(Echo(String::new()));
    };
    assert!(user.client_key_data.is_some());
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
    RotatedClient::new(&mut config, build)
}

fn write(folder: &TempDir, certificate: &str) {
    fs::write(folder.path().join("certificate"), certificate).unwrap();
    fs::write(folder.path().join("key"), "key").unwrap();
}

async fn presented(client: &RotatedClient<Echo>) -> String {
    let response = client.send(Request::new(())).await.unwrap();
    response.into_body()
}

#[tokio::test(start_paused = true)]
async fn an_unusable_certificate_leaves_the_last_one_in_use() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "one");
    let client = rotated(&folder).unwrap();
    let (log, _guard) = warnings();
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
    // The log leaves out warnings that repeat.
    assert_eq!(log.text().lines().count(), 7);
    write(&folder, "two");
    tokio::time::advance(REREAD_INTERVAL).await;
    assert_eq!(presented(&client).await, "two");
    write(&folder, "broken");
    tokio::time::advance(REREAD_INTERVAL).await;
    assert_eq!(presented(&client).await, "two");
    assert_eq!(log.text().lines().count(), 8);
}

#[test]
fn an_unreadable_certificate_is_an_error_at_startup() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("certificate");
    let error = rotated(&folder).err().unwrap();
    let expected = format!("cannot read client certificate `{}`: ", path.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
}

fn config(path: &Path) -> Config {
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
        let error = RotatedClient::new(&mut config(&path), build).err().unwrap();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn other_credentials_take_precedence_over_the_token_file() {
    let mut config = config(Path::new("/absent"));
    config.auth_info.token = Some("inline".to_owned().into());
    assert!(RotatedClient::new(&mut config, build).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_rotated_token_is_used_after_the_next_read_or_after_a_401() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    fs::write(&path, " old\n").unwrap();
    let accepted = Arc::new(Mutex::new(String::new()));
    let header = Arc::clone(&accepted);
    let server = tower::service_fn(move |request: Request<()>| {
        let is_accepted = request.headers()[AUTHORIZATION] == *header.lock().unwrap();
        let code = if is_accepted { 200 } else { 401 };
        let answer = Response::builder().status(code).body(());
        ready(answer.map_err(BoxError::from))
    });
    let client = RotatedClient::new(&mut config(&path), move |_| Ok(server.clone())).unwrap();
    let status = async |token| {
        *accepted.lock().unwrap() = format!("Bearer {token}");
        let answer = client.send(Request::new(())).await;
        answer.unwrap().status().as_u16()
    };
    assert_eq!(status("old").await, 200);
    fs::write(&path, "new\n").unwrap();
    assert_eq!(status("old").await, 200);
    assert_eq!(status("new").await, 401);
    assert_eq!(status("new").await, 200);
    fs::write(&path, "next").unwrap();
    tokio::time::advance(REREAD_INTERVAL).await;
    assert_eq!(status("next").await, 200);
    // If the file is missing, empty or invalid, the last token stays in use.
    for content in [None, Some(""), Some("two\nlines")] {
        match content {
            None => fs::remove_file(&path).unwrap(),
            Some(content) => fs::write(&path, content).unwrap(),
        }
        tokio::time::advance(REREAD_INTERVAL).await;
        assert_eq!(status("next").await, 200, "{content:?}");
    }
    fs::write(&path, "last").unwrap();
    assert_eq!(status("last").await, 401);
    assert_eq!(status("last").await, 200);
}
