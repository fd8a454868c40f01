//! Asks the daemon on this node for a page on its metrics port.
//!
//! Any process may answer at that port: a page has a maximum size, and texts of its documents are
//! escaped.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use flate2::write::GzDecoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::runtime::runtime;
use crate::telemetry::escaped;
use crate::watch::bounded::MAX_DUMP_BYTES;

/// Timeout of the connection, which a kernel accepts for a process that is busy.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(200);

/// Timeout of the whole request: the daemon answers within three seconds, or that it is busy.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes that are decompressed at a time, to a thousand times as many at most.
const MOST_COMPRESSED: usize = 16 * 1024;

/// Reason for which there is no page.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoPage {
    /// Nothing listens, or a program that has no such page, or not for this client.
    #[error("{0}")]
    Absent(String),
    /// The daemon did not answer in time, or said that it cannot now.
    #[error("the daemon is busy")]
    Busy,
}

impl NoPage {
    fn absent(error: impl Into<anyhow::Error>) -> Self {
        Self::Absent(format!("{:#}", error.into()))
    }
}

/// Returns the address at which a client on the node reaches a server with this bind address.
pub(super) fn loopback_of(bind: SocketAddr) -> SocketAddr {
    let ip = match bind.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bind.port())
}

/// Returns a page of the daemon at an address.
pub(super) fn get(address: SocketAddr, path: &str) -> Result<String, NoPage> {
    let mut page = Vec::new();
    get_pieces(address, path, &mut |piece| {
        page.extend_from_slice(piece);
        Ok(())
    })?;
    text(page)
}

/// Reads a page of the daemon at an address, and passes on each piece as it arrives.
pub(super) fn get_pieces(
    address: SocketAddr,
    path: &str,
    take: &mut impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> Result<(), NoPage> {
    let page = async {
        let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
        let stream = connected.map_err(|_| NoPage::Busy)?;
        let stream = stream.map_err(NoPage::absent)?;
        ask_pieces(stream, &address.to_string(), path, take).await
    };
    let runtime = runtime().map_err(NoPage::absent)?;
    let page = runtime.block_on(async { timeout(TIMEOUT, page).await });
    page.unwrap_or(Err(NoPage::Busy))
}

fn text(page: Vec<u8>) -> Result<String, NoPage> {
    let text = String::from_utf8(page).context("the page is not text");
    text.map_err(NoPage::absent)
}

/// Asks a daemon for a page on a connection to its metrics port; `host` is the name of the server
/// in the request.
pub(super) async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    host: &str,
    path: &str,
) -> Result<String, NoPage> {
    let mut page = Vec::new();
    let mut take = |piece: &[u8]| {
        page.extend_from_slice(piece);
        Ok(())
    };
    ask_pieces(stream, host, path, &mut take).await?;
    text(page)
}

async fn ask_pieces(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    host: &str,
    path: &str,
    take: &mut impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> Result<(), NoPage> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(NoPage::absent)?;
    let request = Request::get(path)
        .header(HOST, host)
        .header(ACCEPT_ENCODING, "gzip")
        .body(Empty::<Bytes>::new())
        .map_err(NoPage::absent)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(NoPage::absent)?;
        match response.status() {
            StatusCode::OK => body(response, take).await.map_err(NoPage::absent),
            StatusCode::SERVICE_UNAVAILABLE => Err(NoPage::Busy),
            status => Err(NoPage::Absent(format!("{path}: {status}"))),
        }
    };
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        // The rest of the answer may be here already.
        _ = connection => answer.await,
    }
}

/// Reads a text, which is decompressed while the rest of it arrives.
async fn body(
    response: http::Response<Incoming>,
    take: &mut impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let is_compressed = response.headers().contains_key(CONTENT_ENCODING);
    let mut body = response.into_body();
    let mut inflated = GzDecoder::new(Vec::new());
    let mut size = 0;
    let mut add = |bytes: &[u8]| {
        size += bytes.len() as u64;
        anyhow::ensure!(size <= MAX_DUMP_BYTES, "the page is too large");
        take(bytes)
    };
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        if !is_compressed {
            add(&data)?;
            continue;
        }
        // A few bytes may stand for many more.
        for data in data.chunks(MOST_COMPRESSED) {
            inflated.write_all(data)?;
            add(inflated.get_ref())?;
            inflated.get_mut().clear();
        }
    }
    if is_compressed {
        add(&inflated.finish()?)?;
    }
    Ok(())
}

/// Parses a document of a page. Characters in its strings that a terminal acts on are escaped.
pub(super) fn document<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    serde_json::from_value(with_plain_texts(serde_json::from_str(json)?))
}

fn with_plain_texts(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(escaped(&text).into_owned()),
        Value::Array(values) => values.into_iter().map(with_plain_texts).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, with_plain_texts(value)))
            .collect(),
        other => other,
    }
}

#[cfg(test)]
#[path = "tests/daemon.rs"]
mod tests;
