//! Answers at the metrics port, of the daemon and of other programs.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

/// Answers one request with these bytes, and returns the reply and the request.
fn answered(answer: &[u8]) -> (Result<String, NoPage>, String) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let answer = answer.to_owned();
    let server = thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut request = [0; 1024];
        let length = stream.read(&mut request).unwrap();
        stream.write_all(&answer).unwrap();
        String::from_utf8(request[..length].to_vec()).unwrap()
    });
    let page = get(address, "/rules");
    (page, server.join().unwrap())
}

fn response(head: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

#[test]
fn a_page_is_read_compressed_or_not() {
    let (page, request) = answered(&response("200 OK", b"text"));
    assert_eq!(page.unwrap(), "text");
    assert!(request.starts_with("GET /rules HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("accept-encoding: gzip\r\n"), "{request}");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder
        .write_all("rules ".repeat(100_000).as_bytes())
        .unwrap();
    let compressed = encoder.finish().unwrap();
    let head = "200 OK\r\ncontent-encoding: gzip";
    let (page, _) = answered(&response(head, &compressed));
    assert_eq!(page.unwrap().len(), 600_000);
    let (page, _) = answered(&response(head, &compressed[..100]));
    assert!(matches!(page, Err(NoPage::Absent(_))), "{page:?}");
}

#[test]
fn other_programs_have_no_page() {
    for answer in [
        &response("404 Not Found", b"404 page not found\n")[..],
        &response("403 Forbidden", b""),
        &response("302 Found\r\nlocation: /metrics", b""),
        &response("200 OK", b"\xff\xfe"),
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
    ] {
        let (page, _) = answered(answer);
        assert!(matches!(page, Err(NoPage::Absent(_))), "{page:?}");
    }
    let (page, _) = answered(&response("503 Service Unavailable", b"try again later\n"));
    assert!(matches!(page, Err(NoPage::Busy)), "{page:?}");
}

#[test]
fn nothing_listens() {
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let page = get(address, "/rules");
    assert!(matches!(page, Err(NoPage::Absent(_))), "{page:?}");
}

#[test]
fn texts_of_documents_are_escaped() {
    let document: Value = document(r#"{"a": ["\u001b[2J", {"b": "x\ny"}], "c": 1}"#).unwrap();
    let expected = serde_json::json!({"a": ["\\u{1b}[2J", {"b": "x\\ny"}], "c": 1});
    assert_eq!(document, expected);
}

#[test]
fn a_server_is_asked_at_a_loopback_address_if_it_has_one() {
    for (bind, asked) in [
        ("0.0.0.0:1", "127.0.0.1:1"),
        ("[::]:1", "[::1]:1"),
        ("127.0.0.1:1", "127.0.0.1:1"),
        ("192.0.2.1:1", "192.0.2.1:1"),
    ] {
        let asked_at = loopback_of(bind.parse().unwrap());
        assert_eq!(asked_at.to_string(), asked);
    }
}
