//! Connections over pipes in memory, so that time may be virtual.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;

/// Version of HTTP that both ends of a pipe know to be spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Http {
    One,
    Two,
}

/// The client's end of a pipe.
pub(super) struct ClientEnd {
    pipe: TokioIo<DuplexStream>,
    http: Http,
}

impl ClientEnd {
    pub(super) fn new(pipe: DuplexStream, http: Http) -> Self {
        let pipe = TokioIo::new(pipe);
        Self { pipe, http }
    }
}

impl Connection for ClientEnd {
    fn connected(&self) -> Connected {
        match self.http {
            Http::One => Connected::new(),
            Http::Two => Connected::new().negotiated_h2(),
        }
    }
}

impl Read for ClientEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(context, buf)
    }
}

impl Write for ClientEnd {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(context, buf)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}
