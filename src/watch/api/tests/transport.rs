//! Tests of `transport`.

use std::fs;

use super::super::credentials::REREAD_INTERVAL;
use super::*;

/// Sends a request to a server that accepts one token. Returns the status of the response.
async fn status(token: &Arc<TokenFile>, accepted: &'static str) -> u16 {
    let service = tower::service_fn(move |request: Request<()>| {
        let is_accepted = request.headers()[AUTHORIZATION] == format!("Bearer {accepted}");
        let code = if is_accepted { 200 } else { 401 };
        let answer = Response::builder().status(code).body(());
        std::future::ready(answer.map_err(BoxError::from))
    });
    let answer = send(service, Some(Arc::clone(token)), None, Request::new(())).await;
    answer.unwrap().status().as_u16()
}

#[tokio::test(start_paused = true)]
async fn a_rotated_token_is_used_after_the_next_read_or_after_a_401() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    fs::write(&path, " old\n").unwrap();
    let mut config = Config::new("http://test".parse().unwrap());
    config.auth_info.token_file = Some(path.to_str().unwrap().to_owned());
    let token = Arc::new(TokenFile::take(&mut config).unwrap().unwrap());
    assert_eq!(status(&token, "old").await, 200);
    fs::write(&path, "new\n").unwrap();
    assert_eq!(status(&token, "old").await, 200);
    assert_eq!(status(&token, "new").await, 401);
    assert_eq!(status(&token, "new").await, 200);
    fs::write(&path, "next").unwrap();
    tokio::time::advance(REREAD_INTERVAL).await;
    assert_eq!(status(&token, "next").await, 200);
    // If the file is missing, empty or invalid, the last token stays in use.
    for content in [None, Some(""), Some("two\nlines")] {
        match content {
            None => fs::remove_file(&path).unwrap(),
            Some(content) => fs::write(&path, content).unwrap(),
        }
        tokio::time::advance(REREAD_INTERVAL).await;
        assert_eq!(status(&token, "next").await, 200, "{content:?}");
    }
    fs::write(&path, "last").unwrap();
    assert_eq!(status(&token, "last").await, 401);
    assert_eq!(status(&token, "last").await, 200);
}
