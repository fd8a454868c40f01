//! Stream of bytes in memory that responses send while it is made.

use std::io::{self, Write};
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use flate2::write::{GzDecoder, GzEncoder};
use futures::stream::{self, TryStreamExt};
use http_body_util::StreamBody;
use hyper::body::{Body, Frame};
use tokio::sync::{OwnedSemaphorePermit, watch};

/// Bytes of a piece. Decompressed for a client that does not accept gzip, it is up to ten times as
/// long.
const PIECE: usize = 8 * 1024;

/// Compresses rules into a stream.
pub(crate) type RulesWriter = GzEncoder<StreamWriter>;

/// Stream that responses have in memory until it is sent, or ended for a newer one.
#[derive(Debug)]
pub(super) struct HeldStream(watch::Sender<Stream>);

/// Pieces of a stream. In one buffer, it would take three times its size whenever that buffer
/// grows.
#[derive(Debug)]
struct Stream {
    pieces: Vec<Bytes>,
    progress: StreamProgress,
    _permit: Option<OwnedSemaphorePermit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StreamProgress {
    /// No family has answered.
    Requested,
    Begun,
    Complete,
    /// Its pieces are not in memory anymore.
    Ended,
}

impl HeldStream {
    pub(super) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self(watch::Sender::new(Stream {
            pieces: Vec::new(),
            progress: StreamProgress::Requested,
            _permit: Some(permit),
        }))
    }

    fn advance(&self, progress: StreamProgress) {
        self.0
            .send_modify(|stream| stream.progress = stream.progress.max(progress));
    }

    pub(super) fn complete(&self) {
        self.advance(StreamProgress::Complete);
    }

    /// Ends the responses of this stream. Returns how far it was made.
    pub(super) fn end(&self) -> StreamProgress {
        let ended = Stream {
            pieces: Vec::new(),
            progress: StreamProgress::Ended,
            _permit: None,
        };
        self.0.send_replace(ended).progress
    }

    /// Waits for the first bytes; forever for those of a stream that is ended before.
    pub(super) async fn begun(&self) {
        let begun = [StreamProgress::Begun, StreamProgress::Complete];
        let mut stream = self.0.subscribe();
        // The sender is not dropped meanwhile.
        let _ = stream.wait_for(|now| begun.contains(&now.progress)).await;
    }

    /// Returns the piece at a position, none at the end.
    async fn piece(&self, at: usize) -> io::Result<Option<Bytes>> {
        let mut stream = self.0.subscribe();
        let is_there = |stream: &Stream| {
            stream.pieces.len() > at || stream.progress >= StreamProgress::Complete
        };
        let stream = stream.wait_for(is_there).await.map_err(io::Error::other)?;
        match stream.progress {
            StreamProgress::Ended => Err(io::Error::other("ended for newer requests")),
            _ => Ok(stream.pieces.get(at).cloned()),
        }
    }

    /// Returns the body of a response, which is read piece by piece as the stream is made and sent;
    /// decompressed for a client that does not accept gzip.
    pub(super) fn body(
        self: Arc<Self>,
        accepts_gzip: bool,
    ) -> impl Body<Data = Bytes, Error = io::Error> + Send + 'static {
        let inflated = (!accepts_gzip).then(|| GzDecoder::new(Vec::new()));
        let bytes = stream::try_unfold((self, 0, inflated), async |(stream, at, mut inflated)| {
            let bytes = match (stream.piece(at).await?, inflated.take()) {
                (None, None) => return Ok(None),
                (None, Some(rest)) => rest.finish()?.into(),
                (Some(piece), None) => piece,
                (Some(piece), Some(mut decoder)) => {
                    decoder.write_all(&piece)?;
                    let bytes = mem::take(decoder.get_mut());
                    inflated = Some(decoder);
                    bytes.into()
                }
            };
            Ok::<_, io::Error>(Some((bytes, (stream, at + 1, inflated))))
        });
        StreamBody::new(bytes.map_ok(Frame::data))
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
        self.0.advance(StreamProgress::Begun);
    }
}

impl Write for StreamWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let pieces = bytes.chunks(PIECE).map(Bytes::copy_from_slice);
        self.0.0.send_if_modified(|stream| {
            let is_read = stream.progress < StreamProgress::Ended;
            if is_read {
                stream.pieces.extend(pieces);
            }
            is_read
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
