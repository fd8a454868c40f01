//! A server that answers from a script: in virtual time without a socket, or on a real one.
//!
//! Both the library's own tests and those of the whole client include it. What it answers, and what
//! becomes of the answer on its way, is data. Messages in protobuf are written field by field.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "support of tests: each includer uses a part of it, and failing is its job"
)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use tokio::time::sleep;
use tower::BoxError;

/// As servers write it; the parameter is on streams only, but clients do not check.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// A part of a body.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text(String),
    Bytes(Vec<u8>),
    Wait(Duration),
    /// The connection breaks.
    Break,
    /// Nothing, for ever.
    Hang,
}

/// Reaction of the server to one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// The connection is refused.
    Refuse,
    /// Headers never come.
    Mute,
    Answer(u16, Vec<Piece>),
    /// An answer whose headers say that it is protobuf.
    Protobuf(u16, Vec<Piece>),
    /// With these headers and no others.
    With(u16, Vec<(&'static str, &'static str)>, Vec<Piece>),
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) path: String,
    query: String,
    pub(crate) accept: String,
    pub(crate) accept_encoding: String,
}

impl Asked {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let header = |name| {
            let value = request.headers().get(name);
            value.map_or_else(String::new, |text| text.to_str().unwrap().to_owned())
        };
        Self {
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            accept: header(ACCEPT),
            accept_encoding: header(ACCEPT_ENCODING),
        }
    }

    /// A parameter, as it is written.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        let mut pairs = self.query.split('&');
        pairs.find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.value("watch").is_some()
    }
}

/// A client of a server that answers like this. There is no socket: time may be virtual.
pub(crate) fn client(answer: impl FnMut(&Asked) -> Reply + Send + 'static) -> Client {
    let answer = Arc::new(Mutex::new(answer));
    let service = tower::service_fn(move |request: Request<Body>| {
        let reply = (*answer.lock().unwrap())(&Asked::of(&request));
        async move { Ok::<_, BoxError>(respond(reply).await?.map(BodyExt::boxed_unsync)) }
    });
    Client::new(service, "default")
}

/// The response to a request, once its headers are to be sent; an error is a broken connection.
pub(crate) async fn respond(
    reply: Reply,
) -> Result<Response<StreamBody<impl Stream<Item = Result<Frame<Bytes>, BoxError>>>>, BoxError> {
    let (code, headers, pieces) = match reply {
        Reply::Refuse => return Err(BoxError::from("connection refused")),
        Reply::Mute => std::future::pending().await,
        Reply::Answer(code, pieces) => (
            code,
            vec![(CONTENT_TYPE.as_str(), "application/json")],
            pieces,
        ),
        Reply::Protobuf(code, pieces) => (code, vec![(CONTENT_TYPE.as_str(), PROTOBUF)], pieces),
        Reply::With(code, headers, pieces) => (code, headers, pieces),
    };
    let mut response = Response::builder().status(code);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    let frames = futures::stream::unfold(VecDeque::from(pieces), frame);
    Ok(response.body(StreamBody::new(frames))?)
}

async fn frame(
    mut pieces: VecDeque<Piece>,
) -> Option<(Result<Frame<Bytes>, BoxError>, VecDeque<Piece>)> {
    loop {
        match pieces.pop_front()? {
            Piece::Text(text) => return Some((Ok(Frame::data(text.into())), pieces)),
            Piece::Bytes(bytes) => return Some((Ok(Frame::data(bytes.into())), pieces)),
            Piece::Wait(time) => sleep(time).await,
            Piece::Break => return Some((Err("connection reset".into()), VecDeque::new())),
            Piece::Hang => std::future::pending().await,
        }
    }
}

/// A length-delimited field of a message in protobuf: a text, or another message.
pub(crate) fn field(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag << 3 | 2];
    prost::encode_length_delimiter(content.len(), &mut out).unwrap();
    out.extend_from_slice(content);
    out
}

/// An object in an envelope that names its kind.
pub(crate) fn typed((version, kind): (&str, &str), object: &[u8]) -> Vec<u8> {
    let types = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".as_slice(), &field(1, &types), &field(2, object)].concat()
}

/// A message of a watch, about an object in an envelope, behind its length.
pub(crate) fn event(kind: &str, object: &[u8]) -> Vec<u8> {
    let object = field(2, &field(1, object));
    let message = [field(1, kind.as_bytes()), object].concat();
    let length = u32::try_from(message.len()).unwrap();
    [&length.to_be_bytes(), message.as_slice()].concat()
}
