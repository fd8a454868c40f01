//! One plain HTTP GET inside a namespace: enough for health, metrics and readiness.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::netns::Netns;

/// Local answers come at once; a server that is stuck must not hang the test.
const PATIENCE: Duration = Duration::from_secs(5);

/// Fetches `path` and returns status and body.
pub fn get(netns: &Netns, server: SocketAddr, path: &str) -> Result<(u16, String), String> {
    netns
        .enter(|| fetch(server, path))
        .map_err(|error| format!("GET {server}{path}: {error}"))
}

fn fetch(server: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {server}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other(format!("odd answer `{head}`")))?;
    Ok((status, body.to_owned()))
}
