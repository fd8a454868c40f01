//! The server over real sockets.

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::{
    CONNECTIONS, HEAD_TIMEOUT, LONGEST_BODY, LONGEST_HEAD, Room, not_found, reply, serve,
    serve_within,
};

async fn all(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    all(stream).await
}

/// Sends all of `request`, or as much as the server takes, and reads what it says to that.
async fn say(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut incoming, mut outgoing) = stream.split();
    let mut answer = Vec::new();
    let written = outgoing.write_all(request.as_bytes());
    let read = async {
        // A reset after the answer is how the rest of a long request is refused.
        let _ = incoming.read_to_end(&mut answer).await;
    };
    let (_, ()) = tokio::join!(written, read);
    String::from_utf8(answer).unwrap()
}

/// Runs `test` beside a server of one page, and waits for the server to end.
async fn with_server<T: Future>(test: impl FnOnce(std::net::SocketAddr, CancellationToken) -> T) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let page = |request: &http::request::Parts| match request.uri.path() {
        "/page" => reply(StatusCode::OK, "text/plain", "hello"),
        _ => not_found(),
    };
    let server = serve(listener, page, stop.clone());
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

        // A quiet connection does not keep the server.
        let idle = TcpStream::connect(address).await.unwrap();
        get(address, "/page").await;
        stop.cancel();
        assert_eq!(all(idle).await, "");
    })
    .await;
}

/// Any pod can do this to a probe.
#[tokio::test]
async fn a_flood_of_silent_clients_keeps_nobody_waiting() {
    with_server(|address, _| async move {
        let mut idle = std::collections::VecDeque::new();
        for _ in 0..CONNECTIONS + 10 {
            idle.push_back(TcpStream::connect(address).await.unwrap());
        }
        assert!(get(address, "/page").await.ends_with("hello"));
        // Nothing more is held than there is room for.
        for silent in idle.drain(..10) {
            assert_eq!(all(silent).await, "");
        }
        let mut last = idle.pop_back().unwrap();
        let request = b"GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        last.write_all(request).await.unwrap();
        assert!(all(last).await.ends_with("hello"));
    })
    .await;
}

#[tokio::test]
async fn a_slow_head_is_cut_off() {
    with_server(|address, _| async move {
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET /page HT").await.unwrap();
        get(address, "/page").await;
        tokio::time::pause();
        // Paused time jumps ahead as soon as everyone waits.
        let ended = tokio::time::timeout(HEAD_TIMEOUT * 2, all(slow)).await;
        assert!(!ended.unwrap().contains("200 OK"));
    })
    .await;
}

#[tokio::test]
async fn servers_may_share_their_room() {
    let room = Room::new(1);
    let (first, second) = (
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    );
    let addresses = [&first, &second].map(|listener| listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let page = |_: &http::request::Parts| reply(StatusCode::OK, "text/plain", "hello");
    let client = async {
        assert!(get(addresses[1], "/").await.ends_with("hello"));
        let mut idle = TcpStream::connect(addresses[0]).await.unwrap();
        // It is served, and stays.
        idle.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        idle.readable().await.unwrap();
        assert!(get(addresses[1], "/").await.ends_with("hello"));
        assert_eq!(all(idle).await.matches("hello").count(), 1);
        stop.cancel();
    };
    tokio::join!(
        serve_within(room.clone(), first, page, stop.clone()),
        serve_within(room, second, page, stop.clone()),
        client
    );
}

#[tokio::test]
async fn a_long_head_is_refused() {
    with_server(|address, _| async move {
        let head = |length| {
            let cookie = "x".repeat(length);
            format!(
                "GET /page HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
            )
        };
        let fair = say(address, &head(LONGEST_HEAD / 2)).await;
        assert!(fair.ends_with("hello"), "{fair}");
        for length in [2 * LONGEST_HEAD, 1024 * 1024] {
            let long = say(address, &head(length)).await;
            assert!(
                long.is_empty() || long.starts_with("HTTP/1.1 431 "),
                "{length}: {long}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_long_body_is_refused_unread() {
    with_server(|address, _| async move {
        let put = |length: usize, body: &str| {
            format!("PUT /page HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}")
        };
        let close = "GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let fair = put(LONGEST_BODY, &"x".repeat(LONGEST_BODY)) + close;
        let fair = say(address, &fair).await;
        assert_eq!(fair.matches("200 OK").count(), 2, "{fair}");
        // Answered although nothing of the body ever comes.
        let long = say(address, &put(LONGEST_BODY + 1, "")).await;
        assert!(long.starts_with("HTTP/1.1 413 "), "{long}");
        assert!(long.contains("Connection: close\r\n"), "{long}");
        let chunk = format!("{:x}\r\n{}\r\n", LONGEST_BODY, "x".repeat(LONGEST_BODY));
        let endless = format!(
            "PUT /page HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}{chunk}"
        );
        let endless = say(address, &endless).await;
        assert!(endless.starts_with("HTTP/1.1 413 "), "{endless}");
    })
    .await;
}

#[tokio::test]
async fn a_slow_body_is_cut_off() {
    with_server(|address, _| async move {
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"PUT /page HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx")
            .await
            .unwrap();
        get(address, "/page").await;
        tokio::time::pause();
        let ended = tokio::time::timeout(HEAD_TIMEOUT * 2, all(slow)).await;
        let ended = ended.unwrap();
        assert!(ended.starts_with("HTTP/1.1 408 "), "{ended}");
    })
    .await;
}
