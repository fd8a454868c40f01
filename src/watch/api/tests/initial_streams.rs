//! Streaming lists that do not come to their end.

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
            "watch: listing",
            "list limit=1000: listing, set a, listed",
            "watch after=7",
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
        check(vec![reply], &["watch: listing, listed"]);
    }
}

#[test]
fn a_stream_without_its_final_bookmark_leads_to_pages() {
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
            "watch: listing",
            "list limit=1000: failed 500",
            "list limit=1000: failed 403",
            "list limit=1000: failed protocol error",
            "watch: listing, listed",
        ],
    );
}

/// Requests, and after which one the list was complete.
fn requests(time: Duration, script: Vec<Reply>) -> Vec<String> {
    let transcript = paused().block_on(follow_for(time, script));
    let is_step = |line: &String| line.starts_with('?') || line == "listed";
    let steps: Vec<_> = transcript.into_iter().filter(is_step).collect();
    exchanges(&steps)
}

const PAGES: [&str; 3] = ["watch", "list limit=1000: listed", "watch after=7"];

#[test]
fn a_stream_that_adds_objects_for_ever_leads_to_pages() {
    let second = Duration::from_secs(1);
    let added = [
        Piece::Text(event("ADDED", &service("a", "3"))),
        Piece::Wait(second),
    ];
    let script = vec![
        Reply::Answer(200, vec![added; 3600].concat()),
        page("7", "", &[service("a", "3")]),
        open(&[]),
    ];
    assert_eq!(requests(second * 298, script.clone()), ["watch"]);
    assert_eq!(requests(second * 302, script), PAGES);
}

/// As of a server that knows no streamed lists, and sends all objects as if they were new.
#[test]
fn a_stream_that_adds_objects_and_then_nothing_leads_to_pages() {
    let script = vec![
        open(&[event("ADDED", &service("a", "3"))]),
        page("7", "", &[service("a", "3")]),
        open(&[]),
    ];
    assert_eq!(requests(Duration::from_secs(11), script), PAGES);
}

#[test]
fn a_stream_of_more_bytes_than_any_cluster_has_leads_to_pages() {
    let large = wire::large("a", "3", 60 << 20);
    let frame = wire::event("ADDED", &wire::enveloped(&large));
    // The tenth is not read to its end, nor is anything waited for.
    let script = vec![
        wire::streams(&vec![frame; 10]),
        page("7", "", &[]),
        open(&[]),
    ];
    assert_eq!(requests(Duration::from_secs(1), script), PAGES);
}

/// The cause that breaks a stream off may do so each time.
#[test]
fn a_stream_that_is_cut_off_leads_to_pages_after_one_failure() {
    let added = event("ADDED", &service("a", "3"));
    for lines in [vec![], vec![added.clone()], vec![added, bookmark("5")]] {
        let pieces = lines.into_iter().map(Piece::Text).chain([Piece::Break]);
        let script = vec![
            Reply::Answer(200, pieces.collect()),
            page("7", "", &[service("a", "3")]),
            open(&[]),
        ];
        assert_eq!(requests(Duration::from_secs(3), script), PAGES);
    }
}
