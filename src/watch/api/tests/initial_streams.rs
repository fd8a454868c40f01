//! Streams of the whole state that do not come to their end.

use std::time::Duration;

use super::script::*;
use super::wire;

const MINUTE: Duration = Duration::from_secs(60);

/// An initial stream like this is followed by pages at once; the reply may take so long.
#[track_caller]
fn leads_to_pages(stream: Reply, time: Duration) {
    check_for(
        time,
        vec![stream, page("7", "", &[service("a", "3")])],
        &[
            "? watch",
            "listing",
            "? list limit=250",
            "listing",
            "set a",
            "listed",
            "? watch after=7",
        ],
    );
}

/// A bookmark that ends the list of a kind.
fn end_of((version, kind): (&str, &str)) -> String {
    let types = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\"");
    end_of_list("9").replace("{\"metadata\"", &types)
}

#[test]
fn a_bookmark_ends_the_list_of_its_own_kind() {
    let services = ("v1", "Service");
    for reply in [
        open(&[end_of(services)]),
        wire::streams(&[wire::end_of_kind(services, "9")]),
    ] {
        check(vec![reply], &["? watch", "listing", "listed"]);
    }
}

#[test]
fn a_stream_without_its_end_mark_leads_to_pages() {
    let second = Duration::from_secs(1);
    leads_to_pages(ends(&[]), second);
    leads_to_pages(ends(&[bookmark("5")]), second);
    leads_to_pages(ends(&["not a word of the API\n".to_owned()]), second);
    let pods = ("v1", "Pod");
    leads_to_pages(open(&[end_of(pods)]), second);
    leads_to_pages(wire::streams(&[wire::end_of_kind(pods, "9")]), second);
    leads_to_pages(open(&[]), second * 11);
    leads_to_pages(open(&["\n".repeat(100)]), second * 11);
    leads_to_pages(open(&[bookmark("5")]), second * 11);
    // Ordinary bookmarks without end, one in a while or all at once.
    let slow = vec![[Piece::Text(bookmark("5")), Piece::Wait(second)]; 600].concat();
    leads_to_pages(Reply::Answer(200, slow), second * 12);
    let later = vec![
        Piece::Text(bookmark("5")),
        Piece::Wait(second * 9),
        Piece::Text(bookmark("6")),
        Piece::Wait(second * 9),
    ];
    leads_to_pages(Reply::Answer(200, later), second * 12);
}

#[test]
fn pages_that_fail_lead_back_to_a_stream() {
    check_for(
        MINUTE,
        vec![
            ends(&[]),
            status(500, "InternalError"),
            status(403, "Forbidden"),
            ends(&["{}".to_owned()]),
            open(&[end_of_list("9")]),
        ],
        &[
            "? watch",
            "listing",
            "? list limit=250",
            "failed 500",
            "? list limit=250",
            "failed 403",
            "? list limit=250",
            "failed malformed",
            "? watch",
            "listing",
            "listed",
        ],
    );
}
