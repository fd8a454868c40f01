//! Events of a watch, and watches that resume.

use std::time::Duration;

use super::script::*;

const SECOND: Duration = Duration::from_secs(1);

fn listed_at(version: &str, then: &[String]) -> Vec<String> {
    [&[end_of_list(version)], then].concat()
}

#[test]
fn goes_on_after_the_last_event_or_bookmark() {
    check(
        vec![
            ends(&listed_at("5", &[event("ADDED", &service("a", "6"))])),
            ends(&[event("DELETED", &service("a", "7")), bookmark("9")]),
            open(&[]),
        ],
        &[
            "watch: listing, listed, set a",
            "watch after=6: deleted a",
            "watch after=9",
        ],
    );
}

#[test]
fn lists_again_if_the_version_has_expired() {
    for refusal in [ends(&[expired()]), status(410, "Gone")] {
        let script = vec![
            ends(&listed_at("5", &[bookmark("5")])),
            refusal,
            open(&[event("ADDED", &service("b", "3")), end_of_list("20")]),
        ];
        check(
            script,
            &[
                "watch: listing, listed",
                "watch after=5: failed expired",
                "watch: listing, set b, listed",
            ],
        );
    }
}

#[test]
fn an_undecodable_event_only_advances_the_resource_version() {
    check(
        vec![
            ends(&listed_at(
                "5",
                &[
                    event("ADDED", &service("a", "6")),
                    event("MODIFIED", &bad_service("a", "7")),
                    event("ADDED", &service("b", "8")),
                    event("DELETED", &bad_service("a", "9")),
                ],
            )),
            open(&[]),
        ],
        &[
            "watch: listing, listed, set a, undecodable ns/a, set b, deleted a",
            "watch after=9",
        ],
    );
}

#[test]
fn a_quiet_watch_may_end_in_order() {
    let quiet = Reply::Answer(200, vec![Piece::Wait(Duration::from_secs(300))]);
    check_for(
        Duration::from_secs(310),
        vec![ends(&listed_at("5", &[bookmark("6")])), quiet, open(&[])],
        &["watch: listing, listed", "watch after=6", "watch after=6"],
    );
}

#[test]
fn a_watch_that_exceeds_its_timeout_is_ended() {
    let minute = [Piece::Wait(SECOND * 60), Piece::Text(bookmark("5"))];
    let minutes = std::iter::repeat_n(minute, 60).flatten();
    let busy = [Piece::Text(end_of_list("5"))].into_iter().chain(minutes);
    check_for(
        SECOND * 640,
        vec![Reply::Answer(200, busy.collect()); 2],
        &["watch: listing, listed", "watch after=5"],
    );
}

/// A watch from version 0 would send all objects again, and no deletions.
#[test]
fn a_watch_does_not_resume_from_version_zero() {
    check(
        vec![
            ends(&listed_at("5", &[bookmark("0")])),
            ends(&[event("ADDED", &service("a", "6")), bookmark("0")]),
            ends(&[event("MODIFIED", &service("a", "0"))]),
            open(&[]),
        ],
        &[
            "watch: listing, listed",
            "watch after=5: set a",
            "watch after=6: set a",
            "watch after=6",
        ],
    );
}
