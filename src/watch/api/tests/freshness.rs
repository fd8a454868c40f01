//! Reports that a kind is current.

use tokio::time::timeout;

use super::super::{Observer, ReflectorEvent, Selector, list_and_watch};
use super::script::*;
use crate::ingest::ServiceObject;
use crate::watch::SourceEvent;

/// Observations, and how often the kind was then reported to be current.
#[derive(Default)]
struct Currents(Vec<(String, usize)>);

impl Observer<ServiceObject> for Currents {
    fn on_source_event(&mut self, observed: SourceEvent<ServiceObject>) {
        let what = match observed {
            SourceEvent::Listing => "listing".to_owned(),
            SourceEvent::Set(object) => object.metadata.name,
            SourceEvent::Deleted(name) => format!("-{}", name.name),
            SourceEvent::Listed => "listed".to_owned(),
        };
        self.0.push((what, 0));
    }

    fn on_reflector_event(&mut self, event: ReflectorEvent<'_>) {
        if let (ReflectorEvent::Current, Some((_, count))) = (event, self.0.last_mut()) {
            *count += 1;
        }
    }
}

#[track_caller]
fn check(script: Vec<Reply>, expected: &[(&str, usize)]) {
    let currents = paused().block_on(async {
        let mut observer = Currents::default();
        let selector = Selector::services();
        let (server, _) = server(script);
        let following = list_and_watch(&server, &selector, &mut observer);
        let _ = timeout(std::time::Duration::from_secs(30), following).await;
        observer.0
    });
    let currents: Vec<_> = currents
        .iter()
        .map(|(what, count)| (&**what, *count))
        .collect();
    assert_eq!(currents, expected);
}

#[test]
fn the_end_of_a_list_events_and_bookmarks_report_a_kind_as_current() {
    let added = |name, version| event("ADDED", &service(name, version));
    check(
        vec![open(&[
            added("a", "3"),
            bookmark("4"),
            end_of_list("5"),
            added("b", "6"),
            event("DELETED", &service("b", "7")),
            bookmark("8"),
            bookmark("9"),
        ])],
        // An incomplete list does not count.
        &[("listing", 0), ("a", 0), ("listed", 1), ("b", 1), ("-b", 3)],
    );
    check(
        vec![
            status(400, "Invalid"),
            page("7", "next", &[service("a", "3")]),
            page("7", "", &[service("b", "3")]),
            // A response alone does not count either.
            open(&[]),
        ],
        &[("listing", 0), ("a", 0), ("b", 0), ("listed", 1)],
    );
}
