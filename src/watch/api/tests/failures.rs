//! A server that is down, busy or faulty.

use std::time::Duration;

use super::script::*;

#[test]
fn half_a_minute_without_a_failure_ends_the_backoff() {
    // Five failures take at most 49.6 s, and the sixth pause at least 15 s. Then a list, and a
    // watch that works for so long.
    let working = Duration::from_secs(30);
    let mut script = vec![Reply::Refuse; 5];
    let listed = [Piece::Text(end_of_list("5")), Piece::Wait(working)];
    let bookmark = Piece::Text(bookmark("6"));
    script.push(Reply::Answer(200, [&listed[..], &[bookmark]].concat()));
    script.extend([Reply::Refuse, open(&[])]);
    let end = Duration::from_millis(51_500) + working;
    let transcript = paused().block_on(follow_for(end, script));
    let is_resumed = |line: &&String| line.starts_with("? watch after=6");
    assert_eq!(transcript.iter().filter(is_resumed).count(), 2);
}

#[test]
fn an_expired_version_after_a_restart_is_retried_soon() {
    // The five pauses take at most 49.6 s, and the sixth at least 15 s if it grew.
    let mut script = vec![ends(&[end_of_list("5"), bookmark("6")])];
    script.extend(vec![Reply::Refuse; 5]);
    script.extend([ends(&[expired()]), open(&[end_of_list("9")])]);
    let transcript = paused().block_on(follow_for(Duration::from_secs(52), script));
    assert_eq!(
        transcript[transcript.len() - 4..],
        ["failed expired", "? watch", "listing", "listed"]
    );
}

#[test]
fn a_streaming_list_that_fails_three_times_is_replaced_by_pages() {
    let mut script = vec![status(504, "Timeout"); 3];
    script.extend([page("7", "", &[]), open(&[])]);
    check(
        script,
        &[
            "watch: failed 504",
            "watch: failed 504",
            "watch: failed 504",
            "list limit=1000: listing, listed",
            "watch after=7",
        ],
    );
}
