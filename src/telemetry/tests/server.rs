//! Server over real sockets, and its limit of connections.

use bytes::Bytes;
use futures::FutureExt;
use http::{Request, StatusCode};
use std::future::ready;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::{
    ConnectionLimit, ConnectionPermit, HEAD_TIMEOUT, MAX_BODY, MAX_HEAD, not_found, reply, serve,
    serve_within,
};

async fn read_all(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    read_all(stream).await
}

/// Sends all of `request`, or as much as the server reads, and returns the response.
async fn send(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut incoming, mut outgoing) = stream.split();
    let mut answer = Vec::new();
    let written = outgoing.write_all(request.as_bytes());
    let read = async {
        // The server resets the connection after its response to a request that is too long.
        let _ = incoming.read_to_end(&mut answer).await;
    };
    let (_, ()) = tokio::join!(written, read);
    String::from_utf8(answer).unwrap()
}

/// Runs `test` alongside a server of one page, and waits for the server to end.
async fn with_server<T: Future>(test: impl FnOnce(std::net::SocketAddr, CancellationToken) -> T) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let page = |request: &Request<Bytes>| match request.uri().path() {
        "/page" => reply(StatusCode::OK, "text/plain", "hello"),
        _ => not_found(),
    };
    let server = serve(listener, |request| ready(page(&request)), stop.clone());
    let client = async {
        test(address, stop.clone()).await;
        stop.cancel();
    };
    tokio::join!(server, client);
}

#[tokio::test]
async fn pages_are_served_until_stopped() {
    with_server(|address, stop| async move {
        let page = get(address, "/page?x=y").await;
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains("Content-Type: text/plain\r\n"), "{page}");
        assert!(
            page.contains("X-Content-Type-Options: nosniff\r\n"),
            "{page}"
        );
        assert!(page.ends_with("\r\n\r\nhello"), "{page}");
        let none = get(address, "/page/").await;
        assert!(none.starts_with("HTTP/1.1 404 Not Found\r\n"), "{none}");

        // An idle connection does not delay the end of the server.
        let idle = TcpStream::connect(address).await.unwrap();
        get(address, "/page").await;
        stop.cancel();
        assert_eq!(read_all(idle).await, "");
    })
    .await;
}

#[tokio::test]
async fn a_slow_head_times_out() {
    with_server(|address, _| async move {
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET /page HT").await.unwrap();
        get(address, "/page").await;
        tokio::time::pause();
        // Paused time jumps ahead as soon as all tasks wait.
        let ended = tokio::time::timeout(HEAD_TIMEOUT * 2, read_all(slow)).await;
        assert!(!ended.unwrap().contains("200 OK"));
    })
    .await;
}

#[tokio::test]
async fn servers_may_share_a_connection_limit() {
    let limit = ConnectionLimit::new(1);
    let (first, second) = (
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    );
    let addresses = [&first, &second].map(|listener| listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let page = |_: Request<Bytes>| ready(reply(StatusCode::OK, "text/plain", "hello"));
    let client = async {
        assert!(get(addresses[1], "/").await.ends_with("hello"));
        let mut idle = TcpStream::connect(addresses[0]).await.unwrap();
        // A connection that was served stays open.
        idle.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        idle.readable().await.unwrap();
        assert!(get(addresses[1], "/").await.ends_with("hello"));
        assert_eq!(read_all(idle).await.matches("hello").count(), 1);
        stop.cancel();
    };
    tokio::join!(
        serve_within(limit.clone(), first, |_| true, page, stop.clone()),
        serve_within(limit, second, |_| true, page, stop.clone()),
        client
    );
}

#[tokio::test]
async fn a_long_head_is_rejected() {
    with_server(|address, _| async move {
        let head = |length| {
            let cookie = "x".repeat(length);
            format!(
                "GET /page HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
            )
        };
        let accepted = send(address, &head(MAX_HEAD / 2)).await;
        assert!(accepted.ends_with("hello"), "{accepted}");
        for length in [2 * MAX_HEAD, 1024 * 1024] {
            let long = send(address, &head(length)).await;
            assert!(
                long.is_empty() || long.starts_with("HTTP/1.1 431 "),
                "{length}: {long}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_long_body_is_rejected_unread() {
    with_server(|address, _| async move {
        let put = |length: usize, body: &str| {
            format!("PUT /page HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}")
        };
        let close = "GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let accepted = put(MAX_BODY, &"x".repeat(MAX_BODY)) + close;
        let accepted = send(address, &accepted).await;
        assert_eq!(accepted.matches("200 OK").count(), 2, "{accepted}");
        // The response does not wait for the body.
        let long = send(address, &put(MAX_BODY + 1, "")).await;
        assert!(long.starts_with("HTTP/1.1 413 "), "{long}");
        assert!(long.contains("Connection: close\r\n"), "{long}");
        let chunk = format!("{:x}\r\n{}\r\n", MAX_BODY, "x".repeat(MAX_BODY));
        let endless = format!(
            "PUT /page HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}{chunk}"
        );
        let endless = send(address, &endless).await;
        assert!(endless.starts_with("HTTP/1.1 413 "), "{endless}");
    })
    .await;
}

#[tokio::test]
async fn a_slow_body_times_out() {
    with_server(|address, _| async move {
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"PUT /page HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx")
            .await
            .unwrap();
        get(address, "/page").await;
        tokio::time::pause();
        let ended = tokio::time::timeout(HEAD_TIMEOUT * 2, read_all(slow)).await;
        let ended = ended.unwrap();
        assert!(ended.starts_with("HTTP/1.1 408 "), "{ended}");
    })
    .await;
}

fn is_evicted(permit: &ConnectionPermit) -> bool {
    permit.evicted().now_or_never().is_some()
}

#[test]
fn a_connection_beyond_the_limit_evicts_the_oldest() {
    let limit = ConnectionLimit::new(2);
    let (first, second) = (limit.acquire(), limit.clone().acquire());
    assert!(!is_evicted(&first));
    let third = limit.acquire();
    assert!(is_evicted(&first) && !is_evicted(&second) && !is_evicted(&third));
    drop(first);
    assert_eq!(limit.permits.lock().len(), 2);
}

#[test]
fn a_closed_connection_frees_its_permit() {
    let limit = ConnectionLimit::new(2);
    let first = limit.acquire();
    drop(limit.acquire());
    let third = limit.acquire();
    assert!(!is_evicted(&first) && !is_evicted(&third));
    drop((first, third));
    assert!(limit.permits.lock().is_empty());
}
