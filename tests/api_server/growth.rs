//! Cost of unreadable objects, in instructions: the same for each, however many there are.
//!
//! Counted by callgrind, so that a busy machine counts the same.

use std::env;
use std::time::Duration;

use deltaproxy::testing::ingest::ServiceObject;
use deltaproxy::testing::watch::SourceEvent;
use deltaproxy::testing::watch::api::{self, ReflectorEvent, Selector};
use tokio::time::timeout;

use crate::callgrind;
use crate::support::left_out::{Part, skips};

use super::node::{server, virtual_time};
use super::scripted::{Piece, Reply, client};

/// Tells the child how many objects there are.
const OBJECTS: &str = "UNREADABLE_OBJECTS";

/// Counts what cannot be read.
struct Counter(usize);

impl api::Observer<ServiceObject> for Counter {
    fn on_source_event(&mut self, _: SourceEvent<ServiceObject>) {}

    fn on_reflector_event(&mut self, event: ReflectorEvent<'_>) {
        self.0 += usize::from(matches!(event, ReflectorEvent::Undecodable(_)));
    }
}

/// A stream of so many objects of which none can be read, and then as many that can.
fn stream(objects: usize) -> String {
    let event = |kind: &str, number: usize, ports: &str| {
        format!(
            "{{\"type\":\"{kind}\",\"object\":{{\"metadata\":{{\"namespace\":\"ns\",\"name\":\"{kind}-{number}\",\
             \"resourceVersion\":\"5\"}},\"spec\":{{\"ports\":{ports}}}}}}}\n"
        )
    };
    let unreadable = (0..objects).map(|number| event("ADDED", number, "{}"));
    let readable = (0..objects).map(|number| event("MODIFIED", number, "[]"));
    let end = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\",\
        \"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n";
    let unreadable: String = unreadable.collect();
    let readable: String = readable.collect();
    [&unreadable, end, &readable].concat()
}

/// The one function that callgrind counts. Closures would be named after the one that makes them.
#[inline(never)]
fn counted(run: &mut dyn FnMut()) {
    run();
}

fn one_stream(text: &str) -> usize {
    virtual_time().block_on(async {
        let pieces = vec![Piece::Text(text.to_owned()), Piece::Hang];
        let server = server(client(move |_| Reply::Answer(200, pieces.clone())));
        let mut counter = Counter(0);
        let selector = Selector::services();
        let following = api::list_and_watch(&server, &selector, &mut counter);
        let _ = timeout(Duration::from_secs(60), following).await;
        counter.0
    })
}

/// The child: not a test of its own.
#[test]
#[ignore = "run by the other one"]
fn count() {
    let objects = env::var(OBJECTS).unwrap().parse().unwrap();
    let (text, mut found) = (stream(objects), 0);
    counted(&mut || found = one_stream(&text));
    assert_eq!(found, objects);
}

#[test]
fn unreadable_objects_cost_the_same_each() {
    if skips(Part::Machine) || !callgrind::is_installed() {
        return;
    }
    callgrind::grows_in_proportion("unreadable objects", |objects| {
        let variables = [(OBJECTS, objects.to_string())];
        callgrind::instructions("*growth::counted", "api_server::growth::count", &variables)
    });
}
