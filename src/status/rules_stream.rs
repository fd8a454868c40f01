//! Stream of bytes in memory that responses send while it is made.

use std::future::poll_fn;
use std::io::{self, Write};
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use flate2::write::{GzDecoder, GzEncoder};
use hyper::body::{Body, Frame};
use tokio::sync::OwnedSemaphorePermit;

/// Bytes of a stream that a client gets at a time.
const PIECE: usize = 64 * 1024;

/// Bytes at a time for clients that do not accept gzip: rules are up to ten times as long as in a
/// stream.
const INFLATED_PIECE: usize = 8 * 1024;

/// Compresses rules into a stream.
pub(crate) type RulesWriter = GzEncoder<StreamWriter>;

/// Stream that responses have in memory until it is sent, or ended for a newer one: then it is
/// `None`.
#[derive(Debug)]
pub(super) struct HeldStream(Mutex<Option<Stream>>);

/// Bytes of a stream, and the tasks that wait for more of them.
#[derive(Debug)]
struct Stream {
    bytes: Vec<u8>,
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
        Self(Mutex::new(Some(Stream {
            bytes: Vec::new(),
            progress: StreamProgress::Requested,
            waiting: Vec::new(),
            _permit: permit,
        })))
    }

    /// Locks the stream. A panic while it was locked leaves it consistent.
    fn lock(&self) -> MutexGuard<'_, Option<Stream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the stream, unless it was ended, and wakes the tasks that wait for that.
    fn change(&self, change: impl FnOnce(&mut Stream)) {
        let waiting = self.lock().as_mut().map(|stream| {
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
        let ended = self.lock().take()?;
        ended.waiting.into_iter().for_each(Waker::wake);
        Some(ended.progress)
    }

    /// Waits until a family begins to answer.
    pub(super) async fn begun(&self) {
        poll_fn(|context| match &mut *self.lock() {
            Some(stream) if stream.progress > StreamProgress::Requested => Poll::Ready(()),
            stream => {
                if let Some(stream) = stream {
                    stream.waiting.push(context.waker().clone());
                }
                Poll::Pending
            }
        })
        .await;
    }

    /// Returns up to `most` bytes from a position on, none at the end.
    fn poll_read(
        &self,
        at: usize,
        most: usize,
        context: &Context<'_>,
    ) -> Poll<io::Result<Vec<u8>>> {
        let mut stream = self.lock();
        let Some(stream) = &mut *stream else {
            let ended = io::Error::other("ended for newer requests");
            return Poll::Ready(Err(ended));
        };
        let bytes = stream.bytes.get(at..).unwrap_or_default();
        if bytes.is_empty() && stream.progress < StreamProgress::Complete {
            stream.waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        let bytes = bytes.get(..most).unwrap_or(bytes);
        Poll::Ready(Ok(bytes.to_vec()))
    }
}

/// Writer at the end of a stream.
#[derive(Debug)]
pub(crate) struct StreamWriter(Arc<HeldStream>);

impl StreamWriter {
    pub(super) fn new(stream: Arc<HeldStream>) -> Self {
        Self(stream)
    }

    /// Notes that a family begins to answer.
    pub(super) fn begin(&self) {
        self.0
            .change(|stream| stream.progress = stream.progress.max(StreamProgress::Begun));
    }
}

impl Write for StreamWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .change(|stream| stream.bytes.extend_from_slice(bytes));
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
    at: usize,
    /// Decompresses it for a client that does not accept gzip; `None` for others, and at the end.
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

    /// Returns the next piece, none at the end.
    fn poll_piece(&mut self, context: &Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        loop {
            let most = match &self.inflated {
                Some(_) => INFLATED_PIECE,
                None => PIECE,
            };
            let read = ready!(self.stream.poll_read(self.at, most, context))?;
            self.at += read.len();
            let Some(inflated) = &mut self.inflated else {
                return Poll::Ready(Ok(read));
            };
            inflated.write_all(&read)?;
            if read.is_empty() {
                inflated.try_finish()?;
            }
            let piece = mem::take(inflated.get_mut());
            if read.is_empty() || !piece.is_empty() {
                return Poll::Ready(Ok(piece));
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
        let piece = ready!(self.poll_piece(context));
        let piece = piece.map(|piece| Some(piece).filter(|piece| !piece.is_empty()));
        Poll::Ready(
            piece
                .map(|piece| piece.map(|piece| Frame::data(piece.into())))
                .transpose(),
        )
    }
}
