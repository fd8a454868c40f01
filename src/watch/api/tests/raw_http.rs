//! Responses that are not HTTP, or have a wrong length, over HTTP/1.1 in virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Uri;
use kube::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::sleep;
use tower::BoxError;

use super::super::transport::client_over;
use super::super::{ApiClient, Encoding, RateLimit};
use super::pipe::{ClientEnd, Http};
use super::script::*;

/// Action of the server after some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Close,
    /// Waits for the next request.
    Serve,
    /// Neither reads nor writes.
    Hang,
    /// Writes this every ten seconds.
    Drip(&'static str),
}

const SECOND: Duration = Duration::from_secs(1);

/// A response of a healthy server: the end of a list, or a page.
fn healthy(is_watch: bool) -> (Vec<u8>, Then) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let (body, coding, then) = if is_watch {
        let line = end_of_list("5");
        let chunk = format!("{:x}\r\n{line}\r\n", line.len());
        (chunk, "transfer-encoding: chunked".to_owned(), Then::Hang)
    } else {
        let body = r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#.to_owned();
        let length = format!("content-length: {}", body.len());
        (body, length, Then::Serve)
    };
    (format!("{head}{coding}\r\n\r\n{body}").into_bytes(), then)
}

/// Reads the head of a request. `None` if the client has closed the connection.
async fn request(pipe: &mut DuplexStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(pipe.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

type First = Arc<Mutex<Option<(Vec<u8>, Then)>>>;

/// Serves one connection: the first request of all is answered so, and the others as they should.
async fn serve(mut pipe: DuplexStream, first: First, transcript: Transcript) {
    while let Some(head) = request(&mut pipe).await {
        let is_watch = head.contains("watch=true");
        let token = head.contains("authorization: Bearer secret\r\n");
        let verb = if is_watch { "? watch" } else { "? list" };
        let line = if token {
            verb.to_owned()
        } else {
            format!("{verb} without token")
        };
        transcript.lock().unwrap().push(line);
        let first = first.lock().unwrap().take();
        let (bytes, then) = first.unwrap_or_else(|| healthy(is_watch));
        if pipe.write_all(&bytes).await.is_err() {
            return;
        }
        match then {
            Then::Serve => {}
            Then::Close => return,
            Then::Hang => std::future::pending().await,
            Then::Drip(text) => loop {
                sleep(SECOND * 10).await;
                if pipe.write_all(text.as_bytes()).await.is_err() {
                    return;
                }
            },
        }
    }
}

/// Lists and watches, for this time, a server whose first response is this.
fn followed(time: Duration, bytes: &[u8], then: Then) -> Vec<String> {
    paused().block_on(async {
        let transcript = Transcript::default();
        let first: First = Arc::new(Mutex::new(Some((bytes.to_vec(), then))));
        let log = transcript.clone();
        let connector = tower::service_fn(move |target: Uri| {
            if target.host() != Some("test") {
                log.lock().unwrap().push(format!("connected to {target}"));
            }
            let (client, server) = duplex(64 * 1024);
            tokio::spawn(serve(server, Arc::clone(&first), log.clone()));
            std::future::ready(Ok::<_, BoxError>(ClientEnd::new(client, Http::One)))
        });
        let mut config = Config::new("http://test".parse().unwrap());
        let token = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&token, "secret\n").unwrap();
        config.auth_info.token_file = Some(token.path().to_str().unwrap().to_owned());
        let client = client_over(move |_| Ok(connector.clone()), config, None).unwrap();
        let server = ApiClient::new(client, "test", Encoding::Json, RateLimit::default());
        exchanges(&follow_with(time, (server, transcript)).await)
    })
}

/// Two seconds later the list is complete, after these exchanges.
#[track_caller]
fn passes(bytes: &str, then: Then, expected: &[&str]) {
    let mut found = followed(SECOND * 2, bytes.as_bytes(), then);
    found.truncate(expected.len());
    let shown: String = bytes.chars().take(200).collect();
    assert_eq!(found, expected, "{shown}");
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

const UNCONNECTED: [&str; 2] = ["watch: failed unconnected", "watch: listing, listed"];
const BROKEN: [&str; 2] = ["watch: listing, failed broken", "list: listing, listed"];

#[test]
fn bytes_that_are_not_http_are_a_failed_connection() {
    for bytes in [
        "",
        "\r\n\r\n\r\n",
        "SSH-2.0-OpenSSH_9.9\r\n",
        "HTTP/1.1 two hundred OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n{}\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n{}\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-",
    ] {
        passes(bytes, Then::Close, &UNCONNECTED);
    }
}

#[test]
fn headers_of_a_megabyte_are_a_failed_connection() {
    let long = format!("HTTP/1.1 200 OK\r\nx-long: {}\r\n\r\n", "a".repeat(1 << 20));
    passes(&long, Then::Hang, &UNCONNECTED);
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x-many: a\r\n".repeat(100_000));
    passes(&many, Then::Hang, &UNCONNECTED);
}

#[test]
fn headers_without_end_time_out_after_a_minute() {
    let expected = ["watch", "list: listing, listed", "watch"];
    for (bytes, drip) in [
        ("HTTP/1.1 200 OK\r\n", "x-more: a\r\n"),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("", ""),
    ] {
        let found = |time| followed(time, bytes.as_bytes(), Then::Drip(drip));
        assert_eq!(found(SECOND * 59), expected[..1], "{drip}");
        assert_eq!(found(SECOND * 62), expected, "{drip}");
    }
}

#[test]
fn a_wrong_length_cuts_the_response_off() {
    let end = end_of_list("5");
    for bytes in [
        "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n".to_owned(),
        format!("{CHUNKED}zz\r\n{end}\r\n"),
        format!("{CHUNKED}-1\r\n{end}\r\n"),
        format!("{CHUNKED}ffffffffffffffffff\r\n{end}\r\n"),
        format!("{CHUNKED}1\r\n\nlonger\r\n"),
        format!("{CHUNKED}1000\r\n\r\n"),
    ] {
        passes(&bytes, Then::Close, &BROKEN);
    }
}

#[test]
fn a_body_shorter_than_its_length_times_out() {
    let expected = ["watch: listing", "list: listing, listed", "watch"];
    for bytes in [
        "HTTP/1.1 200 OK\r\ncontent-length: 9999999999999999\r\n\r\n\n".to_owned(),
        format!("{CHUNKED}fffffffffffffff\r\n\n"),
    ] {
        let found = |time| followed(time, bytes.as_bytes(), Then::Hang);
        assert_eq!(found(SECOND * 9), expected[..1], "{bytes}");
        assert_eq!(found(SECOND * 11), expected, "{bytes}");
    }
}

/// Bytes that follow a body are not the response to the next request.
#[test]
fn bytes_after_a_body_are_not_a_response() {
    let forged = r#"{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"forged","namespace":"ns"}}]}"#;
    let bytes = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{{}}\
         HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{forged}",
        forged.len()
    );
    passes(&bytes, Then::Serve, &["watch", "list: listing, listed"]);
}

/// Neither is the token sent to another server, nor is anything else.
#[test]
fn redirects_are_not_followed() {
    for code in [301, 302, 303, 307, 308] {
        for location in ["http://elsewhere/", "//elsewhere/api", "/elsewhere"] {
            let bytes = format!(
                "HTTP/1.1 {code} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
            );
            let failed = format!("watch: failed {code}");
            passes(&bytes, Then::Serve, &[&failed, "watch: listing, listed"]);
        }
    }
}
