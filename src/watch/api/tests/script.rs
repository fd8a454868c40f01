//! Scripts for the scripted server, and the transcript of requests, observations and events.
//!
//! Each test is only the script and, for each request, what came of its answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::timeout;

pub(super) use super::scripted::{Asked, Piece, Reply};

use super::super::{
    ApiClient, ApiError, Encoding, Observer, RateLimit, ReflectorEvent, Resource, Selector,
    list_and_watch,
};
use super::scripted::client;
use crate::ingest::ServiceObject;
use crate::watch::SourceEvent;

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

/// A Service whose `spec.ports` is not a list.
pub(super) fn bad_service(name: &str, version: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","resourceVersion":"{version}"}},"spec":{{"ports":{{"x":1}}}}}}"#
    )
}

pub(super) fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

pub(super) fn bookmark(version: &str) -> String {
    let object = format!(r#"{{"kind":"Service","metadata":{{"resourceVersion":"{version}"}}}}"#);
    event("BOOKMARK", &object)
}

pub(super) fn end_of_list(version: &str) -> String {
    let end = r#""annotations":{"k8s.io/initial-events-end":"true"}"#;
    let metadata = format!(r#"{{"resourceVersion":"{version}",{end}}}"#);
    event("BOOKMARK", &format!(r#"{{"metadata":{metadata}}}"#))
}

pub(super) fn expired() -> String {
    let gone = r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old"}"#;
    event("ERROR", gone)
}

pub(super) fn page(version: &str, resume: &str, objects: &[String]) -> Reply {
    let items = objects.join(",");
    ends(&[format!(
        r#"{{"kind":"ServiceList","metadata":{{"resourceVersion":"{version}","continue":"{resume}"}},"items":[{items}]}}"#
    )])
}

pub(super) type Transcript = Arc<Mutex<Vec<String>>>;

/// A server that sends these replies and then none, and the transcript of its requests.
pub(super) fn server(script: Vec<Reply>) -> (ApiClient, Transcript) {
    let mut script = VecDeque::from(script);
    server_with(move |_| script.pop_front().unwrap_or(Reply::Mute))
}

/// A server that responds like this, and the transcript of its requests.
pub(super) fn server_with(
    mut answer: impl FnMut(&Asked) -> Reply + Send + 'static,
) -> (ApiClient, Transcript) {
    let transcript = Transcript::default();
    let log = transcript.clone();
    let client = client(move |asked| {
        log.lock().unwrap().push(summary(asked));
        answer(asked)
    });
    let limit = RateLimit::default();
    let server = ApiClient::new(client, "test", Encoding::Protobuf, limit);
    (server, transcript)
}

/// `watch`, `watch after=5`, `list limit=1000 continue=x`; `as json` if protobuf is not accepted.
fn summary(asked: &Asked) -> String {
    let verb = if asked.is_watch() { "watch" } else { "list" };
    let mut text = format!("? {verb}");
    assert_eq!(
        verb == "watch" && asked.value("resourceVersion").is_none(),
        asked.value("sendInitialEvents").is_some(),
        "{asked:?}",
    );
    assert_eq!(asked.accept_encoding, "identity", "{asked:?}");
    for (key, name) in [
        ("resourceVersion", "after"),
        ("limit", "limit"),
        ("continue", "continue"),
    ] {
        if let Some(value) = asked.value(key) {
            text.extend([" ", name, "=", value]);
        }
    }
    match (verb, asked.accept.as_str()) {
        (_, "application/json") => text.push_str(" as json"),
        ("watch", "application/vnd.kubernetes.protobuf;stream=watch,application/json")
        | ("list", "application/vnd.kubernetes.protobuf,application/json") => {}
        (_, other) => panic!("{other}"),
    }
    text
}

/// Observer that records everything.
struct Recorder(Transcript);

impl<K: Resource> Observer<K> for Recorder {
    fn on_source_event(&mut self, observed: SourceEvent<K>) {
        self.0.lock().unwrap().push(match observed {
            SourceEvent::Listing => "listing".to_owned(),
            SourceEvent::Set(object) => format!("set {}", object.metadata().name),
            SourceEvent::Deleted(name) => format!("deleted {}", name.name),
            SourceEvent::Listed => "listed".to_owned(),
        });
    }

    fn on_reflector_event(&mut self, event: ReflectorEvent<'_>) {
        self.0.lock().unwrap().push(match event {
            ReflectorEvent::Current => return,
            ReflectorEvent::Failed { error, pause } => {
                let what = match error {
                    ApiError::Expired { .. } => "expired".to_owned(),
                    ApiError::Status { code, .. } => code.to_string(),
                    ApiError::TimedOut(_) | ApiError::DeadlineExceeded(_) => "timed out".to_owned(),
                    ApiError::Connection(_) => "unconnected".to_owned(),
                    ApiError::BodyAborted(_) => "broken".to_owned(),
                    ApiError::ProtocolError(_) => "protocol error".to_owned(),
                    ApiError::VeryShortWatch => "very short watch".to_owned(),
                };
                assert!(pause >= Duration::from_millis(800), "{pause:?}");
                assert!(pause <= Duration::from_secs(30), "{pause:?}");
                format!("failed {what}")
            }
            ReflectorEvent::Undecodable(problem) => format!("undecodable {}", problem.name),
        });
    }
}

/// Lists and watches Services for this long. Returns requests, observations and events, in order.
pub(super) async fn follow_for(time: Duration, script: Vec<Reply>) -> Vec<String> {
    follow_with(time, server(script)).await
}

/// Lists and watches Services of this server for this long.
pub(super) async fn follow_with(
    time: Duration,
    (server, transcript): (ApiClient, Transcript),
) -> Vec<String> {
    let mut recorder = Recorder(transcript.clone());
    let selector = Selector::<ServiceObject>::services();
    let _ = timeout(time, list_and_watch(&server, &selector, &mut recorder)).await;
    let transcript = transcript.lock().unwrap();
    transcript.clone()
}

/// Groups a transcript by requests: `watch after=5: listing, set a, listed`.
pub(super) fn exchanges(transcript: &[String]) -> Vec<String> {
    let text = transcript.join(", ");
    let requests = text.split("? ").skip(1);
    let with_answer = requests.map(|one| one.trim_end_matches(", ").replacen(", ", ": ", 1));
    with_answer.collect()
}

/// Checks the exchanges of half a minute: long enough for a few retries, too short for a timeout.
#[track_caller]
pub(super) fn check(script: Vec<Reply>, expected: &[&str]) {
    check_for(Duration::from_secs(30), script, expected);
}

/// Checks the exchanges after a stream that the server refuses.
#[track_caller]
pub(super) fn check_pages(mut script: Vec<Reply>, expected: &[&str]) {
    script.insert(0, status(400, "Invalid"));
    check(script, &[&["watch"][..], expected].concat());
}

#[track_caller]
pub(super) fn check_for(time: Duration, script: Vec<Reply>, expected: &[&str]) {
    let transcript = paused().block_on(follow_for(time, script));
    assert_eq!(exchanges(&transcript), expected);
}

/// A runtime in virtual time.
pub(super) fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}
