//! Replies of the health servers as they are on the wire, compared with recorded ones.

#[path = "../../../tests/support/reply.rs"]
mod reply;

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(super) use reply::alike;

/// The whole reply to a request, of which `line` is the method and the path.
pub(super) async fn ask(address: SocketAddr, line: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}
