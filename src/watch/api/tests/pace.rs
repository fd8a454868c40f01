//! How often a server is asked, whatever it answers.

use http::Method;
use tokio::time::Instant;

use super::super::write;
use super::script::*;

/// How long so many events take, written one after the other beside nothing else.
#[tokio::test(start_paused = true)]
async fn events_are_limited_like_all_requests() {
    let (server, _) = server_with(|_| Reply::Answer(201, Vec::new()));
    let began = Instant::now();
    for _ in 0..20 {
        let written = write(
            &server,
            Method::POST,
            "/?watch=true&resourceVersion=1",
            String::new(),
        );
        written.await.unwrap();
    }
    assert_eq!(began.elapsed().as_secs(), 2);
}
