//! A server that takes events, or does not.

use std::collections::VecDeque;
use std::sync::Mutex;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, timeout};

use super::*;
use crate::events::{Event, Recorder, recorder};
use crate::model::ServiceName;
use crate::watch::api::{Encoding, RateLimit};

impl Writer {
    /// Takes the Events that are not written yet.
    pub(crate) fn queued_events(&mut self) -> Vec<Event> {
        let entries = std::iter::from_fn(|| self.waiting.try_recv().ok());
        let events = entries.filter_map(|entry| match entry {
            QueueEntry::Happened(event, _) => Some(event),
            QueueEntry::Flush(_) => None,
        });
        events.collect()
    }
}

/// What the server was asked, with the second.
type Log = Arc<Mutex<Vec<String>>>;

/// A server that answers with these codes, and then with 201.
fn server(codes: &[u16]) -> (ApiClient, Log) {
    let log = Log::default();
    let (asked, start) = (Arc::clone(&log), Instant::now());
    let codes: VecDeque<u16> = codes.iter().copied().collect();
    let codes = Arc::new(Mutex::new(codes));
    let service = tower::service_fn(move |request: Request<Body>| {
        let second = start.elapsed().as_secs();
        let path = request.uri().path();
        let path = path
            .strip_prefix("/apis/events.k8s.io/v1/namespaces/")
            .unwrap();
        let (namespace, resource) = path.split_once('/').unwrap();
        assert_eq!((request.method(), resource), (&Method::POST, "events"));
        let line = format!("{second} POST {namespace}");
        asked.lock().unwrap().push(line);
        let code = codes.lock().unwrap().pop_front().unwrap_or(201);
        async move {
            Response::builder()
                .status(code)
                .body(Body::empty())
                .map_err(tower::BoxError::from)
        }
    });
    let client = Client::new(service, "default");
    (
        ApiClient::new(client, "a test", Encoding::Json, RateLimit::default()),
        log,
    )
}

/// What the server is asked if these things happen at once, within an hour.
async fn asked(codes: &[u16], happen: impl Fn(&Recorder)) -> Vec<String> {
    let (server, log) = server(codes);
    let (recorder, writer) = recorder(Origin::sample());
    happen(&recorder);
    let hour = Duration::from_secs(3600);
    assert!(timeout(hour, writer.run(&server)).await.is_err());
    let log = log.lock().unwrap();
    log.clone()
}

fn taken(recorder: &Recorder) {
    let service = ServiceName::new("shop", "lb");
    recorder.record(Event::CheckNotServed(service, "taken".to_owned()));
}

#[test]
fn an_event_is_not_repeated_for_half_an_hour() {
    let (_, mut writer) = recorder(Origin::sample());
    let mut is_due = |name: &str, minute: u64| {
        let event = Event::CheckNotServed(ServiceName::new("shop", name), String::new());
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(minute * 60);
        writer.is_due(&event, at)
    };
    assert!(is_due("a", 100));
    assert!(is_due("b", 110));
    assert!(!is_due("a", 129));
    assert!(is_due("a", 130));
    assert!(!is_due("a", 159));
    // The clock was set back.
    assert!(is_due("a", 50));
    for number in 0..=MAX_WRITTEN {
        assert!(is_due(&number.to_string(), 200));
    }
    assert_eq!(writer.written.len(), MAX_WRITTEN);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_no_is_not_asked_again() {
    let log = asked(&[403, 422], |recorder| {
        recorder.record(Event::Starting);
        taken(recorder);
    });
    assert_eq!(log.await, ["0 POST default", "0 POST shop"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_asked_for_minutes() {
    let log = asked(&[503; 100], |recorder| recorder.record(Event::Starting)).await;
    assert_eq!(log.len(), TRIES as usize);
    let second = |line: &String| line.split(' ').next().unwrap().parse::<u64>().unwrap();
    let pauses: Vec<u64> = log
        .windows(2)
        .map(|w| second(&w[1]) - second(&w[0]))
        .collect();
    assert!(
        pauses.iter().all(|pause| (10..=13).contains(pause)),
        "{pauses:?}"
    );
    let log = asked(&[429, 500], |recorder| recorder.record(Event::Starting)).await;
    assert_eq!(log.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_full_queue() {
    let log = asked(&[], |recorder| {
        for number in 0..10_000 {
            let service = ServiceName::new("shop", &number.to_string());
            recorder.record(Event::CheckNotServed(service, String::new()));
        }
    });
    assert_eq!(log.await.len(), 256);
    let (recorder, writer) = recorder(Origin::sample());
    drop(writer);
    recorder.record(Event::Starting);
    recorder.flush().await;
    Recorder::disabled().record(Event::Starting);
    Recorder::disabled().flush().await;
}

#[tokio::test(start_paused = true)]
async fn a_flush_waits_for_what_was_said() {
    let (server, log) = server(&[503]);
    let (recorder, writer) = recorder(Origin::sample());
    recorder.record(Event::Starting);
    tokio::select! {
        () = recorder.flush() => {}
        _ = writer.run(&server) => {}
    }
    assert_eq!(log.lock().unwrap().len(), 2);
}
