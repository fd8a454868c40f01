//! Reports of the proxy on this node, from its health server.
//!
//! Kept separate because rules do not tell everything that a proxy knows. Without an answer nothing
//! is known.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// The proxy's health server, at the port where kubelet and load balancers look for it. It answers
/// on localhost unless it was given another address.
const HEALTH: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10256);

/// Wait for an answer. A proxy of this node answers in a millisecond, even if it is busy.
const PATIENCE: Duration = Duration::from_millis(500);

/// An answer has some hundred bytes, with everything that it may name a few thousand.
const LONGEST: u64 = 64 * 1024;

/// The body of `/livez`; empty if nothing answers.
pub(in crate::cli) fn livez() -> String {
    let answer = ask().unwrap_or_default();
    let text = String::from_utf8_lossy(&answer);
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    body.to_owned()
}

/// Each family's report under a key of a body of `/livez`, with the name of the family.
pub(in crate::cli) fn of_families(body: &str, key: &str) -> Vec<(String, Value)> {
    let report: Value = serde_json::from_str(body).unwrap_or_default();
    let families = report.get("status").and_then(Value::as_object);
    let families = families.into_iter().flatten();
    let found = families.filter_map(|(family, report)| {
        let found = report.get(key)?.clone();
        is_name(family).then(|| (family.clone(), found))
    });
    found.collect()
}

/// Reports whether a text can be the name of an object or a part of one. Whatever answers at that
/// port, the terminal is given plain text.
pub(in crate::cli) fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-./".contains(c);
    !text.is_empty() && text.chars().all(is_plain)
}

fn ask() -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&HEALTH, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut body = Vec::new();
    stream.take(LONGEST).read_to_end(&mut body)?;
    Ok(body)
}
