//! The scripted server, and the transcript of what was asked, seen and said.
//!
//! Apart because each test is only the script and the transcript.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use tokio::time::{sleep, timeout};
use tower::BoxError;

use super::super::{ApiError, ApiServer, Encoding, Kind, Notice, Selector, Sink, follow};
use crate::ingest::ServiceObject;
use crate::watch::Observed;

/// As servers write it; the parameter is on streams only, but nobody looks at it.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// A part of a body.
#[derive(Clone)]
pub(super) enum Piece {
    Text(String),
    Bytes(Vec<u8>),
    Wait(Duration),
    /// The connection breaks.
    Break,
    /// Nothing, for ever.
    Hang,
}

/// What the server does about one request.
#[derive(Clone)]
pub(super) enum Reply {
    /// The connection is refused.
    Refuse,
    /// Headers never come.
    Mute,
    Answer(u16, Vec<Piece>),
    /// The same, and its headers say that it is protobuf.
    Protobuf(u16, Vec<Piece>),
}

/// A body that stays open after these lines.
pub(super) fn open(lines: &[String]) -> Reply {
    let mut pieces: Vec<_> = lines.iter().cloned().map(Piece::Text).collect();
    pieces.push(Piece::Hang);
    Reply::Answer(200, pieces)
}

/// A body that ends after these lines.
pub(super) fn ends(lines: &[String]) -> Reply {
    Reply::Answer(200, lines.iter().cloned().map(Piece::Text).collect())
}

/// An error in the API's own form.
pub(super) fn status(code: u16, reason: &str) -> Reply {
    let body = format!(r#"{{"kind":"Status","code":{code},"reason":"{reason}","message":"no"}}"#);
    Reply::Answer(code, vec![Piece::Text(body)])
}

pub(super) fn service(name: &str, version: &str) -> String {
    format!(
        r#"{{"kind":"Service","metadata":{{"name":"{name}","namespace":"ns","resourceVersion":"{version}"}},"spec":{{"clusterIP":"10.0.0.1"}}}}"#
    )
}

/// `spec.ports` is no list here.
pub(super) fn bad_service(name: &str, version: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","resourceVersion":"{version}"}},"spec":{{"ports":{{"x":1}}}}}}"#
    )
}

pub(super) fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

pub(super) fn bookmark(version: &str) -> String {
    event(
        "BOOKMARK",
        &format!(r#"{{"kind":"Service","metadata":{{"resourceVersion":"{version}"}}}}"#),
    )
}

pub(super) fn end_of_list(version: &str) -> String {
    event(
        "BOOKMARK",
        &format!(
            r#"{{"metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}"#
        ),
    )
}

pub(super) fn expired() -> String {
    event(
        "ERROR",
        r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old"}"#,
    )
}

pub(super) fn page(version: &str, resume: &str, objects: &[String]) -> Reply {
    let items = objects.join(",");
    ends(&[format!(
        r#"{{"kind":"ServiceList","metadata":{{"resourceVersion":"{version}","continue":"{resume}"}},"items":[{items}]}}"#
    )])
}

type Transcript = Arc<Mutex<Vec<String>>>;

/// A server that gives these replies and then none, and what it is asked.
pub(super) fn server(script: Vec<Reply>) -> (ApiServer, Transcript) {
    let transcript = Transcript::default();
    let script = Arc::new(Mutex::new(VecDeque::from(script)));
    let log = transcript.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        log.lock().unwrap().push(summary(&request));
        let reply = script.lock().unwrap().pop_front().unwrap_or(Reply::Mute);
        async move {
            let (code, kind, pieces) = match reply {
                Reply::Refuse => return Err(BoxError::from("connection refused")),
                Reply::Mute => std::future::pending().await,
                Reply::Answer(code, pieces) => (code, "application/json", pieces),
                Reply::Protobuf(code, pieces) => (code, PROTOBUF, pieces),
            };
            let frames = futures::stream::unfold(VecDeque::from(pieces), frame);
            let response = Response::builder().status(code).header(CONTENT_TYPE, kind);
            Ok(response.body(StreamBody::new(frames).boxed_unsync())?)
        }
    });
    (
        ApiServer::new(Client::new(service, "default"), "test", Encoding::Protobuf),
        transcript,
    )
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

/// `watch`, `watch after=5`, `list limit=250 continue=x`; `as json` where protobuf is no choice.
fn summary(request: &Request<Body>) -> String {
    let query = request.uri().query().unwrap_or_default();
    let value = |key: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
    };
    let verb = if value("watch").is_some() {
        "watch"
    } else {
        "list"
    };
    let mut text = format!("? {verb}");
    assert_eq!(
        verb == "watch" && value("resourceVersion").is_none(),
        value("sendInitialEvents").is_some(),
        "{query}",
    );
    for (key, name) in [
        ("resourceVersion", "after"),
        ("limit", "limit"),
        ("continue", "continue"),
    ] {
        if let Some(value) = value(key) {
            text.extend([" ", name, "=", value]);
        }
    }
    match (verb, request.headers()[ACCEPT].to_str().unwrap()) {
        (_, "application/json") => text.push_str(" as json"),
        ("watch", "application/vnd.kubernetes.protobuf;stream=watch,application/json")
        | ("list", "application/vnd.kubernetes.protobuf,application/json") => {}
        (_, other) => panic!("{other}"),
    }
    text
}

/// Writes everything down.
struct Scribe(Transcript);

impl<K: Kind> Sink<K> for Scribe {
    async fn observe(&mut self, observed: Observed<K>) {
        self.0.lock().unwrap().push(match observed {
            Observed::Listing => "listing".to_owned(),
            Observed::Set(object) => format!("set {}", object.metadata().name),
            Observed::Gone(object) => format!("gone {}", object.metadata().name),
            Observed::Listed => "listed".to_owned(),
        });
    }

    fn notice(&mut self, notice: Notice<'_>) {
        self.0.lock().unwrap().push(match notice {
            Notice::Connected => return,
            Notice::Failed { error, pause } => {
                let what = match error {
                    ApiError::Expired { .. } => "expired".to_owned(),
                    ApiError::Status { code, .. } => code.to_string(),
                    ApiError::Silent(_) => "silent".to_owned(),
                    ApiError::Connection(_) => "broken".to_owned(),
                };
                assert!(pause >= Duration::from_millis(800), "{pause:?}");
                assert!(pause <= Duration::from_secs(30), "{pause:?}");
                format!("failed {what}")
            }
            Notice::Undecodable(problem) => format!("undecodable {}", problem.name),
        });
    }
}

/// Follows Services for this long; everything that was asked, seen and said, in order.
pub(super) async fn follow_for(time: Duration, script: Vec<Reply>) -> Vec<String> {
    let (server, transcript) = server(script);
    let mut scribe = Scribe(transcript.clone());
    let selector = Selector::<ServiceObject>::services();
    let _ = timeout(time, follow(&server, &selector, &mut scribe)).await;
    let transcript = transcript.lock().unwrap();
    transcript.clone()
}

/// [`follow_for`] half a minute: long enough for a few pauses, too short for a mute server.
#[track_caller]
pub(super) fn check(script: Vec<Reply>, expected: &[&str]) {
    check_for(Duration::from_secs(30), script, expected);
}

#[track_caller]
pub(super) fn check_for(time: Duration, script: Vec<Reply>, expected: &[&str]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    assert_eq!(runtime.block_on(follow_for(time, script)), expected);
}
