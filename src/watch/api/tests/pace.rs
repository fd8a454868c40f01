//! Rate of requests, with any responses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::super::{Observer, ReflectorEvent, Selector, list_and_watch, send_object};
use super::script::*;
use crate::ingest::ServiceObject;
use crate::watch::SourceEvent;

const MINUTE: Duration = Duration::from_secs(60);

/// More requests are too many in any test, and virtual time does not pass while they come.
const TOO_MANY: usize = 10_000;

/// Number of requests within this time to a server that responds like this.
fn requests(time: Duration, mut answer: impl FnMut(&Asked) -> Reply + Send + 'static) -> usize {
    let mut count = 0;
    let answer = move |asked: &Asked| {
        count += 1;
        match count {
            ..TOO_MANY => answer(asked),
            _ => Reply::Mute,
        }
    };
    let transcript = paused().block_on(async { follow_with(time, server_with(answer)).await });
    let requests = transcript.iter().filter(|line| line.starts_with('?'));
    requests.count()
}

#[track_caller]
fn at_most(most: usize, time: Duration, answer: impl FnMut(&Asked) -> Reply + Send + 'static) {
    let requests = requests(time, answer);
    assert!(
        (most / 4..=most).contains(&requests),
        "{requests}, at most {most}"
    );
}

/// The server lists at once, and then its version has expired: in a stream, or in pages.
#[test]
fn versions_that_expire_after_each_list_are_retried_at_growing_delays() {
    // At 0, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6 s at the soonest, and then 15 to 30 s apart.
    at_most(9, MINUTE, |asked| match asked.value("resourceVersion") {
        None => ends(&[end_of_list("5"), expired()]),
        Some(_) => unreachable!(),
    });
    // A stream that is refused, a page and a watch.
    at_most(3 * 9, MINUTE, |asked| {
        match asked.value("resourceVersion") {
            _ if !asked.is_watch() => page("7", "", &[service("a", "3")]),
            None => status(400, "Invalid"),
            Some(_) => status(410, "Gone"),
        }
    });
    // Events, bookmarks and half a minute before make no difference in the long run.
    at_most(60, MINUTE * 20, |_| {
        let mut version = 0;
        let mut lines = vec![Piece::Text(end_of_list("5"))];
        for _ in 0..20 {
            version += 1;
            lines.extend([
                Piece::Wait(Duration::from_secs(1)),
                Piece::Text(bookmark(&version.to_string())),
            ]);
        }
        lines.push(Piece::Text(expired()));
        Reply::Answer(200, lines)
    });
}

/// As long as it brings something it is opened again after about a second.
#[test]
fn a_watch_that_ends_after_each_bookmark_is_opened_again_after_a_short_wait() {
    let mut version = 5;
    at_most(76, MINUTE, move |asked| {
        version += 1;
        match asked.value("resourceVersion") {
            None => ends(&[end_of_list("5")]),
            Some(_) => ends(&[bookmark(&version.to_string())]),
        }
    });
}

#[test]
fn a_list_without_end_takes_no_more_than_the_rate_and_ends() {
    // A token for each page, and no end: five a second and ten at once.
    let pages = |asked: &Asked, token: String| {
        if asked.is_watch() {
            status(400, "Invalid")
        } else {
            page("7", &token, &[])
        }
    };
    let mut number = 0;
    at_most(5 * 60 + 10, MINUTE, move |asked| {
        number += 1;
        pages(asked, number.to_string())
    });
    // The same token again and again is found out with the second page.
    at_most(9 * 3, MINUTE, move |asked| pages(asked, "same".to_owned()));
}

/// Twenty events, written one after the other, take the time of ten tokens.
#[tokio::test(start_paused = true)]
async fn events_are_limited_like_all_requests() {
    let (server, _) = server_with(|_| Reply::Answer(201, Vec::new()));
    let began = Instant::now();
    for _ in 0..20 {
        let written = send_object(&server, "/?watch=true&resourceVersion=1", &());
        written.await.unwrap();
    }
    assert_eq!(began.elapsed().as_secs(), 2);
}

/// Three hours of 503, and then a list: the delay never exceeds half a minute.
#[test]
fn a_server_that_is_busy_for_hours_gets_two_requests_a_minute() {
    let hours = MINUTE * 180;
    at_most(180 * 4 + 10, hours, |_| status(503, "ServiceUnavailable"));
    let mut began = None;
    let answer = move |_: &Asked| {
        let began = *began.get_or_insert_with(Instant::now);
        if began.elapsed() < hours {
            return status(503, "ServiceUnavailable");
        }
        open(&[end_of_list("5")])
    };
    let time = hours + MINUTE / 2;
    let transcript = paused().block_on(async { follow_with(time, server_with(answer)).await });
    assert_eq!(
        transcript[transcript.len() - 3..],
        ["? watch", "listing", "listed"]
    );
}

/// Seconds between the first two requests to a server that asks for a wait like this.
fn wait_asked_for(retry_after: &'static str) -> u64 {
    let times = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&times);
    let answer = move |_: &Asked| {
        log.lock().unwrap().push(Instant::now());
        match log.lock().unwrap().len() {
            1 => Reply::With(429, vec![("retry-after", retry_after)], Vec::new()),
            _ => Reply::Mute,
        }
    };
    paused().block_on(async {
        let (server, _) = server_with(answer);
        let selector = Selector::<ServiceObject>::services();
        let _ = timeout(MINUTE * 2, list_and_watch(&server, &selector, &mut Ignore)).await;
    });
    let times = times.lock().unwrap();
    (times[1] - times[0]).as_secs()
}

/// Observer that ignores everything.
struct Ignore;

impl Observer<ServiceObject> for Ignore {
    fn on_source_event(&mut self, _: SourceEvent<ServiceObject>) {}

    fn on_reflector_event(&mut self, _: ReflectorEvent<'_>) {}
}

#[test]
fn retry_after_is_limited_to_a_minute() {
    assert_eq!(wait_asked_for("7"), 7);
    assert_eq!(wait_asked_for("60"), 60);
    for endless in ["61", "1000000000", "18446744073709551615"] {
        assert_eq!(wait_asked_for(endless), 60, "{endless}");
    }
    let short = 0..=1;
    for unusable in [
        "",
        "0",
        "-5",
        "soon",
        "1e9",
        "99999999999999999999",
        "Fri, 31 Dec 2999 23:59:59 GMT",
    ] {
        let wait = wait_asked_for(unusable);
        assert!(short.contains(&wait), "{unusable}: {wait}");
    }
}
