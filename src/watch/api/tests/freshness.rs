//! When a kind is known to be current.

use tokio::time::timeout;

use super::super::{Notice, Selector, Sink, follow};
use super::script::*;
use crate::ingest::ServiceObject;
use crate::watch::Observed;

/// Observations, and how often the kind was then reported to be current.
#[derive(Default)]
struct Currents(Vec<(String, usize)>);

impl Sink<ServiceObject> for Currents {
    async fn observe(&mut self, observed: Observed<ServiceObject>) {
        let what = match observed {
            Observed::Listing => "listing".to_owned(),
            Observed::Set(object) => object.metadata.name,
            Observed::Gone(object) => format!("-{}", object.metadata.name),
            Observed::Listed => "listed".to_owned(),
        };
        self.0.push((what, 0));
    }

    fn notice(&mut self, notice: Notice<'_>) {
        if let (Notice::Current, Some((_, count))) = (notice, self.0.last_mut()) {
            *count += 1;
        }
    }
}

#[track_caller]
fn check(script: Vec<Reply>, expected: &[(&str, usize)]) {
    let currents = paused().block_on(async {
        let mut sink = Currents::default();
        let selector = Selector::services();
        let (server, _) = server(script);
        let following = follow(&server, &selector, &mut sink);
        let _ = timeout(std::time::Duration::from_secs(30), following).await;
        sink.0
    });
    let currents: Vec<_> = currents
        .iter()
        .map(|(what, count)| (&**what, *count))
        .collect();
    assert_eq!(currents, expected);
}

#[test]
fn the_end_of_a_list_events_and_bookmarks_say_that_a_kind_is_current() {
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
        // A list under way says nothing yet.
        &[("listing", 0), ("a", 0), ("listed", 1), ("b", 1), ("-b", 3)],
    );
    check(
        vec![
            status(400, "Invalid"),
            page("7", "next", &[service("a", "3")]),
            page("7", "", &[service("b", "3")]),
            // An answer alone says nothing either.
            open(&[]),
        ],
        &[("listing", 0), ("a", 0), ("b", 0), ("listed", 1)],
    );
}
