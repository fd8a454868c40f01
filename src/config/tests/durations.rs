//! Durations in the spelling of Go.

use std::time::Duration;

use crate::config::go::GoDuration;

#[track_caller]
fn check(text: &str, written: &str) {
    let parsed = text.parse::<GoDuration>();
    assert_eq!(
        parsed.map(|duration| duration.to_string()),
        Ok(written.to_owned()),
        "{text}"
    );
}

#[test]
fn durations_are_read_and_written_as_go_does() {
    check("0", "0s");
    check("-0", "0s");
    check("30s", "30s");
    check("15m", "15m0s");
    check("24h", "24h0m0s");
    check("1m30s", "1m30s");
    check("1.5h", "1h30m0s");
    check("+1.5h2m.5s", "1h32m0.5s");
    check("100ms", "100ms");
    check("1500us", "1.5ms");
    check("3µs", "3µs");
    check("7ns", "7ns");
    check("-90s", "-1m30s");
    check("0.000000000001s", "0s");
    check("1.s", "1s");
}

#[test]
fn a_text_without_numbers_and_units_is_not_a_valid_duration() {
    let texts = "|30|s|.s|1 s|1d|PT1H|ten|1h 30m|--1s|-|1..5s|00|300000000h|1é";
    for bad in texts.split('|') {
        let error = bad.parse::<GoDuration>().expect_err(bad);
        let expected = format!("`{bad}` is not a valid duration");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

#[test]
fn a_negative_duration_does_not_convert() {
    assert_eq!(
        GoDuration::seconds(90).to_std(),
        Some(Duration::from_secs(90))
    );
    assert_eq!("-1ns".parse().map(GoDuration::to_std), Ok(None));
}

/// If this fails, `kube::core::Duration` may replace this type.
#[test]
fn the_duration_of_kube_still_differs_from_that_of_go() {
    for (text, written) in [("", "0ns"), ("--5s", "-5s"), ("90s", "90s")] {
        let read: kube::core::Duration = text.parse().unwrap();
        assert_eq!(read.to_string(), written);
    }
}
