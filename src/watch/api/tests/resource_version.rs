//! Resource versions that went back: etcd was restored from an older backup.

use std::collections::VecDeque;
use std::time::Duration;

use super::script::*;

const SECOND: Duration = Duration::from_secs(1);

/// Checks the transcript, checks of the version included, which take a reply of the script.
#[track_caller]
fn check_all(time: Duration, script: Vec<Reply>, expected: &[&str]) {
    let mut script = VecDeque::from(script);
    let answer = move |_: &Asked| script.pop_front().unwrap_or(Reply::Mute);
    let transcript = paused().block_on(async { follow_with(time, server_with(answer)).await });
    assert_eq!(transcript, expected);
}

/// A WatchList with `old` at version 20, and a watch that breaks.
fn listed_and_broken() -> Reply {
    let list = [event("ADDED", &service("old", "3")), end_of_list("20")];
    let mut pieces: Vec<_> = list.into_iter().map(Piece::Text).collect();
    pieces.push(Piece::Break);
    Reply::Answer(200, pieces)
}

/// A WatchList with `new` at version 7.
fn new_list() -> Reply {
    open(&[event("ADDED", &service("new", "4")), end_of_list("7")])
}

#[test]
fn an_event_or_bookmark_of_a_lower_version_leads_to_a_list() {
    for (message, object) in [
        (bookmark("9"), None),
        (event("ADDED", &service("a", "9")), Some("set a")),
        (event("DELETED", &service("a", "9")), Some("deleted a")),
    ] {
        let list = ends(&[end_of_list("10"), bookmark("10"), message]);
        let again = ["failed version went back", "? watch", "listing", "set new"];
        let before = ["? watch", "listing", "listed"].into_iter().chain(object);
        let expected: Vec<_> = before.chain(again).chain(["listed"]).collect();
        check_all(SECOND * 30, vec![list, new_list()], &expected);
    }
}

#[test]
fn versions_that_are_no_decimal_numbers_are_not_compared() {
    for version in ["abc", "1x", "-1", "01"] {
        let list = open(&[end_of_list("10"), bookmark(version), bookmark("5")]);
        let expected = ["? watch", "listing", "listed"];
        // From then on, "5" is compared with that version.
        check_all(SECOND * 30, vec![list], &expected);
        let script = vec![listed_and_broken(), open(&[]), page(version, "", &[])];
        check_all(SECOND * 30, script, &CHECKED);
    }
}

/// A watch broke and has resumed; the version was checked.
const CHECKED: [&str; 7] = [
    "? watch",
    "listing",
    "set old",
    "listed",
    "failed broken",
    "? watch after=20",
    VERSION_CHECK,
];

/// Events and bookmarks never come: the server has none above the version of the watch.
#[test]
fn a_watch_that_resumes_above_the_version_of_the_server_is_replaced_by_a_list() {
    let again = ["failed version went back", "? watch", "listing", "set new"];
    let relisted: Vec<_> = CHECKED.into_iter().chain(again).chain(["listed"]).collect();
    let script = |version| {
        let current = page(version, "next", &[service("new", "4")]);
        vec![listed_and_broken(), open(&[]), current, new_list()]
    };
    check_all(SECOND * 30, script("7"), &relisted);
    for not_lower in ["20", "100"] {
        check_all(SECOND * 30, script(not_lower), &CHECKED);
    }
}

#[test]
fn a_version_is_checked_after_three_minutes_without_an_event() {
    let list = open(&[end_of_list("20")]);
    let script = vec![list, open(&[]), page("7", "", &[]), new_list()];
    let expected = [
        "? watch",
        "listing",
        "listed",
        "? watch after=20",
        VERSION_CHECK,
        "failed version went back",
        "? watch",
        "listing",
        "set new",
        "listed",
    ];
    check_all(SECOND * 190, script, &expected);
}

#[test]
fn a_server_that_was_down_is_checked_once_it_accepts_the_watch() {
    let script = vec![
        ends(&[end_of_list("20"), bookmark("20")]),
        Reply::Refuse,
        status(503, "ServiceUnavailable"),
        open(&[]),
        page("7", "", &[]),
        new_list(),
    ];
    let expected = [
        "? watch",
        "listing",
        "listed",
        "? watch after=20",
        "failed unconnected",
        "? watch after=20",
        "failed 503",
        "? watch after=20",
        VERSION_CHECK,
        "failed version went back",
        "? watch",
        "listing",
        "set new",
        "listed",
    ];
    check_all(SECOND * 30, script, &expected);
}

#[test]
fn a_watch_that_the_server_closes_resumes_without_a_check() {
    let script = vec![
        ends(&[end_of_list("20"), bookmark("20")]),
        Reply::Answer(200, vec![Piece::Wait(SECOND * 100)]),
        // Very short: closed by the server as well.
        ends(&[]),
        open(&[]),
    ];
    let expected = [
        "? watch",
        "listing",
        "listed",
        "? watch after=20",
        "? watch after=20",
        "failed very short watch",
        "? watch after=20",
    ];
    check_all(SECOND * 120, script, &expected);
}

/// The watch goes on, also if the check never gets a reply.
#[test]
fn a_check_that_fails_has_no_effect() {
    let resumed = || open(&[event("ADDED", &service("b", "21"))]);
    let expected: Vec<_> = CHECKED.into_iter().chain(["set b"]).collect();
    for reply in [
        status(403, "Forbidden"),
        status(410, "Gone"),
        Reply::Refuse,
        Reply::Mute,
        ends(&["{".to_owned()]),
        page("", "", &[]),
    ] {
        let script = vec![listed_and_broken(), resumed(), reply];
        check_all(SECOND * 30, script, &expected);
    }
}
