//! Stream of bytes in memory that responses send while it is made.

use std::future::poll_fn;
use std::io::{self, Write};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use flate2::write::{GzDecoder, GzEncoder};
use hyper::body::{Body, Frame};
use tokio::sync::OwnedSemaphorePermit;

use crate::net::Locked;

/// Bytes of a piece. Decompressed for a client that does not accept gzip, it is up to ten times as
/// long.
const PIECE: usize = 8 * 1024;

/// Compresses rules into a stream.
pub(crate) type RulesWriter = GzEncoder<StreamWriter>;

/// Stream that responses have in memory until it is sent, or ended for a newer one: then it is
/// `None`.
#[derive(Debug)]
pub(super) struct HeldStream(Locked<Option<Stream>>);

/// Pieces of a stream, and the tasks that wait for more of them. In one buffer, the stream would
/// take three times its size whenever that buffer grows.
#[derive(Debug)]
struct Stream {
    pieces: Vec<Bytes>,
    progress: StreamProgress,
    waiting: Vec<Waker>,
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StreamProgress {
    /// No family has answered.
    Requested,
    Begun,
    Complete,
}

impl HeldStream {
    pub(super) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self(Locked::new(Some(Stream {
            pieces: Vec::new(),
            progress: StreamProgress::Requested,
            waiting: Vec::new(),
            _permit: permit,
        })))
    }

    /// Changes the stream, unless it was ended, and wakes the tasks that wait for that.
    fn change(&self, change: impl FnOnce(&mut Stream)) {
        let waiting = self.0.lock().as_mut().map(|stream| {
            change(stream);
            mem::take(&mut stream.waiting)
        });
        waiting
            .unwrap_or_default()
            .into_iter()
            .for_each(Waker::wake);
    }

    pub(super) fn complete(&self) {
        self.change(|stream| stream.progress = StreamProgress::Complete);
    }

    /// Ends the responses of this stream. Returns how far it was made.
    pub(super) fn end(&self) -> Option<StreamProgress> {
        let ended = self.0.lock().take()?;
        ended.waiting.into_iter().for_each(Waker::wake);
        Some(ended.progress)
    }

    pub(super) async fn begun(&self) {
        poll_fn(|context| match &mut *self.0.lock() {
            Some(stream) if stream.progress > StreamProgress::Requested => Poll::Ready(()),
            Some(stream) => {
                stream.waiting.push(context.waker().clone());
                Poll::Pending
            }
            // Ended before: the task that makes it has the reason.
            None => Poll::Pending,
        })
        .await;
    }

    /// Returns the piece at a position, none at the end.
    fn poll_piece(&self, at: usize, context: &Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let mut stream = self.0.lock();
        let Some(stream) = &mut *stream else {
            let ended = io::Error::other("ended for newer requests");
            return Poll::Ready(Err(ended));
        };
        let piece = stream.pieces.get(at).cloned();
        if piece.is_none() && stream.progress < StreamProgress::Complete {
            stream.waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(piece))
    }
}

/// Writer at the end of a stream.
#[derive(Debug)]
pub(crate) struct StreamWriter(Arc<HeldStream>);

impl StreamWriter {
    pub(super) fn new(stream: Arc<HeldStream>) -> Self {
        Self(stream)
    }

    pub(super) fn begin(&self) {
        self.0
            .change(|stream| stream.progress = stream.progress.max(StreamProgress::Begun));
    }
}

impl Write for StreamWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let pieces = bytes.chunks(PIECE).map(Bytes::copy_from_slice);
        self.0.change(|stream| stream.pieces.extend(pieces));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Body that is read piece by piece as the stream is made and sent.
#[derive(Debug)]
pub(super) struct StreamBody {
    stream: Arc<HeldStream>,
    /// Number of pieces that were read.
    at: usize,
    /// Decompresses it for a client that does not accept gzip; `None` for others.
    inflated: Option<GzDecoder<Vec<u8>>>,
}

impl StreamBody {
    /// Returns the body for a client that accepts gzip, or does not.
    pub(super) fn new(stream: Arc<HeldStream>, accepts_gzip: bool) -> Self {
        Self {
            stream,
            at: 0,
            inflated: (!accepts_gzip).then(|| GzDecoder::new(Vec::new())),
        }
    }

    /// Returns the next bytes, none at the end.
    fn poll_bytes(&mut self, context: &Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            let piece = ready!(self.stream.poll_piece(self.at, context))?;
            self.at += usize::from(piece.is_some());
            let Some(inflated) = &mut self.inflated else {
                return Poll::Ready(Ok(piece));
            };
            match &piece {
                Some(piece) => inflated.write_all(piece)?,
                None => inflated.try_finish()?,
            }
            let bytes = mem::take(inflated.get_mut());
            if piece.is_none() || !bytes.is_empty() {
                let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
                return Poll::Ready(Ok(bytes.map(Bytes::from)));
            }
        }
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let bytes = ready!(self.poll_bytes(context));
        Poll::Ready(bytes.map(|bytes| bytes.map(Frame::data)).transpose())
    }
}
