//! Lists: streamed, in pages, at once.

use std::time::Duration;

use super::super::{Selector, list, snapshot};
use super::script::*;
use super::wire;

#[test]
fn streams_the_initial_state_and_goes_on_on_the_same_connection() {
    check(
        vec![open(&[
            event("ADDED", &service("a", "3")),
            event("ADDED", &service("b", "2")),
            end_of_list("5"),
            event("MODIFIED", &service("a", "6")),
        ])],
        &["watch: listing, set a, set b, listed, set a"],
    );
}

#[test]
fn falls_back_to_pages_where_streaming_is_refused() {
    for (code, reason) in [(400, "Invalid"), (422, "Invalid"), (400, "BadRequest")] {
        check(
            vec![
                status(code, reason),
                page("7", "t=1", &[service("a", "3")]),
                page("7", "t2", &[service("b", "2")]),
                page("7", "", &[service("c", "1")]),
                open(&[event("ADDED", &service("d", "8"))]),
            ],
            &[
                "watch",
                "list limit=1000: listing, set a",
                "list limit=1000 continue=t%3D1: set b",
                "list limit=1000 continue=t2: set c, listed",
                "watch after=7: set d",
            ],
        );
    }
}

#[test]
fn lists_again_if_a_continue_token_expires() {
    check_pages(
        vec![
            page("7", "t", &[service("a", "3")]),
            status(410, "Expired"),
            page("9", "", &[service("b", "2")]),
            open(&[]),
        ],
        &[
            "list limit=1000: listing, set a",
            "list limit=1000 continue=t: failed expired",
            "list limit=1000: listing, set b, listed",
            "watch after=9",
        ],
    );
}

#[test]
fn an_undecodable_object_of_a_list_is_reported_and_skipped() {
    let objects = [
        service("a", "1"),
        bad_service("b", "2"),
        service("c", "3"),
        "5".into(),
    ];
    check_pages(
        vec![page("7", "", &objects), open(&[])],
        &[
            "list limit=1000: listing, set a, undecodable ns/b, set c, undecodable , listed",
            "watch after=7",
        ],
    );
}

#[test]
fn invalid_utf8_in_json_is_ignored() {
    let odd = |version| {
        let text = service("a", version);
        let (start, end) = text.split_once("\"spec\"").unwrap();
        let annotation = b"\"x\":{\"y\":\"\xff\xc3\x28\"},\"spec\"".as_slice();
        [start.as_bytes(), annotation, end.as_bytes()].concat()
    };
    let answer = |start: &str, version, end: &str| {
        let bytes = [start.as_bytes(), &odd(version), end.as_bytes()].concat();
        Reply::Answer(200, vec![Piece::Bytes(bytes)])
    };
    let list = r#"{"metadata":{"resourceVersion":"4"},"items":["#;
    let line = r#"{"type":"MODIFIED","object":"#;
    check_pages(
        vec![answer(list, "3", "]}"), answer(line, "5", "}\n"), open(&[])],
        &[
            "list limit=1000: listing, set a, listed",
            "watch after=4: set a",
            "watch after=5",
        ],
    );
}

/// Half a character, as JSON can name it, costs the object only where it matters.
#[test]
fn invalid_surrogates_in_unused_fields_are_ignored() {
    let with = |name: &str, what: &str, then: &str| {
        let text = service(name, "3");
        text.replace("\"namespace\"", &format!("{what},\"namespace\""))
            .replace("\"clusterIP\"", &format!("{then}\"clusterIP\""))
    };
    let objects = [
        with(
            "field",
            r#""managedFields":[{"manager":"\ud800"}],"y":["\ud800x"]"#,
            r#""x":"\udc00","#,
        ),
        with("used", r#""labels":{}"#, r#""type":"\ud800","#),
    ];
    let lines = objects.each_ref().map(|object| event("MODIFIED", object));
    check_pages(
        vec![page("3", "", &objects), open(&lines)],
        &[
            "list limit=1000: listing, set field, undecodable ns/used, listed",
            "watch after=3: set field, undecodable ns/used",
        ],
    );
}

#[test]
fn a_list_of_null_is_empty() {
    let list = r#"{"metadata":{"resourceVersion":"4"},"items":null}"#.to_owned();
    check_pages(
        vec![ends(&[list]), open(&[])],
        &["list limit=1000: listing, listed", "watch after=4"],
    );
}

/// Events of a list, without requests for pages and objects, and the number of requested pages.
fn paged(time: Duration, page: fn(&str) -> Reply) -> (String, usize) {
    let mut number = 0;
    let answer = move |asked: &Asked| {
        number += 1;
        if asked.is_watch() {
            return status(400, "Invalid");
        }
        page(&number.to_string())
    };
    let transcript = paused().block_on(async { follow_with(time, server_with(answer)).await });
    let lines = transcript.into_iter();
    let lines = lines.filter(|line| !line.starts_with("set"));
    let (pages, steps) = lines.partition::<Vec<String>, _>(|line| line.starts_with("? list"));
    (steps.join(", "), pages.len())
}

/// Each brings another token. The tenth would be more bytes than any list has, and the twelfth
/// later.
#[test]
fn pages_without_end_are_an_error() {
    let second = Duration::from_secs(1);
    let large = |token: &str| wire::page("7", token, &wire::large("a", "3", 60 << 20));
    let failed = "? watch, listing, failed protocol error".to_owned();
    assert_eq!(paged(second / 2, large), (failed.clone(), 9));
    let slow = |token: &str| match page("7", token, &[]) {
        Reply::Answer(code, pieces) => {
            let wait = Piece::Wait(Duration::from_secs(50));
            Reply::Answer(code, [vec![wait], pieces].concat())
        }
        other => other,
    };
    let unfinished = ("? watch, listing".to_owned(), 12);
    assert_eq!(paged(second * 599, slow), unfinished);
    assert_eq!(paged(second * 600 + second / 2, slow), (failed, 12));
}

/// Numbers that nothing depends on, an object that comes twice, and one of another namespace.
#[test]
fn odd_metadata_and_twins_are_a_list() {
    let body = |remaining: &str| {
        let twin = service("a", "3");
        let other = service("a", "4").replace("\"ns\"", "\"other\"");
        ends(&[format!(
            "{{\"metadata\":{{\"resourceVersion\":\"7\",\"selfLink\":5,\"remainingItemCount\":{remaining}}},\
             \"items\":[{twin},{twin},{other}]}}"
        )])
    };
    for remaining in [
        "-1",
        "1e400",
        "\"many\"",
        "99999999999999999999999",
        "null",
        "[]",
    ] {
        check_pages(
            vec![body(remaining), open(&[])],
            &[
                "list limit=1000: listing, set a, set a, set a, listed",
                "watch after=7",
            ],
        );
    }
}

/// A watch from version 0 brings no deletions from before it began.
#[test]
fn a_list_without_a_version_to_watch_from_is_an_error() {
    for version in ["", "0"] {
        check_for(
            Duration::from_secs(2),
            vec![status(400, "Invalid"), page(version, "", &[])],
            &[
                "watch",
                "list limit=1000: listing, failed protocol error",
                "list limit=1000",
            ],
        );
    }
}

#[tokio::test(start_paused = true)]
async fn lists_once() {
    let (server, _) = server(vec![
        page("7", "t", &[service("a", "1"), bad_service("b", "2")]),
        page("7", "", &[service("c", "2")]),
    ]);
    let found = list(&server, &Selector::services()).await.unwrap();
    assert_eq!(found.objects.len(), 2);
    assert_eq!(found.undecodable[0].name.to_string(), "ns/b");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_has_a_deadline() {
    let (server, _) = server(vec![Reply::Mute]);
    let deadline = Duration::from_secs(5);
    let error = snapshot(&server, "node", Some(deadline)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "timed out: the lists are not complete after 5 s"
    );
}
