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

/// The metrics page; empty if it is not served.
pub fn metrics(netns: &Netns, server: SocketAddr) -> String {
    get(netns, server, "/metrics").map_or_else(|_| String::new(), |(_, body)| body)
}

/// The value of a series of that page, which is named with its labels.
pub fn value(page: &str, series: &str) -> Option<f64> {
    let values = page.lines().filter_map(|line| line.strip_prefix(series));
    let mut values = values.filter_map(|value| value.strip_prefix(' '));
    values.next()?.parse().ok()
}

/// The sum of all counters of that page whose series begin like this.
pub fn count(page: &str, start: &str) -> u64 {
    let series = page.lines().filter(|line| line.starts_with(start));
    let values = series.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

/// The whole reply to a request, of which `line` is the method and the path.
pub fn ask(netns: &Netns, server: SocketAddr, line: &str) -> Result<String, String> {
    let request = format!("{line} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    netns
        .enter(|| send(server, &request))
        .map_err(|error| format!("{line} at {server}: {error}"))
}

fn send(server: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn fetch(server: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    let answer = send(
        server,
        &format!("GET {path} HTTP/1.0\r\nHost: {server}\r\n\r\n"),
    )?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other(format!("odd answer `{head}`")))?;
    Ok((status, body.to_owned()))
}
