//! Levels and formats of log lines.

use std::io;

use tracing::subscriber::with_default;

use super::{Format, LogError, LogLevel, LogOptions, install, subscriber, with_causes};
use crate::logged::Lines;

/// Log without output, and its level. The log is closed when it is dropped.
pub(in crate::telemetry) fn silent() -> (impl Sized, LogLevel) {
    subscriber(&LogOptions::default(), false, io::sink).unwrap()
}

fn options(format: Format, filter: Option<&str>) -> LogOptions {
    LogOptions {
        format,
        filter: filter.map(str::to_owned),
        ..LogOptions::default()
    }
}

/// Returns the lines that `log` writes.
fn captured(options: &LogOptions, color: bool, log: impl FnOnce(&LogLevel)) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    let (subscriber, level) = subscriber(options, color, move || writer.clone()).unwrap();
    with_default(subscriber, || log(&level));
    lines.text()
}

fn logged(options: &LogOptions, color: bool) -> String {
    captured(options, color, |level| {
        tracing::info!(target: "deltaproxy::sync", chains = 3, "restored");
        tracing::debug!(target: "deltaproxy::sync", "own detail");
        tracing::warn!(target: "kube_runtime", "library warning");
        tracing::info!(target: "kube_runtime", "library note");
        tracing::warn!(target: "kube_client::client::tls", "stale authority");
        assert!(level.set(2));
        tracing::debug!(target: "deltaproxy::sync", "later detail");
    })
}

/// What [`logged`] logs before the level changes.
const ALL: [&str; 5] = [
    "restored",
    "own detail",
    "library warning",
    "library note",
    "stale authority",
];

#[track_caller]
fn check(verbosity: u8, shown: &[&str]) {
    let options = LogOptions {
        verbosity,
        ..LogOptions::default()
    };
    let text = logged(&options, false);
    for words in ALL {
        assert_eq!(
            text.contains(words),
            shown.contains(&words),
            "{words} at {verbosity}: {text}"
        );
    }
    assert!(text.contains("later detail"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn higher_verbosity_logs_more() {
    check(0, &["restored", "library warning", "stale authority"]);
    for verbosity in [2, 5, 10] {
        check(verbosity, &ALL);
    }
}

#[test]
fn a_changed_level_keeps_the_modules_of_the_filter() {
    let filter = "deltaproxy=warn, kube_runtime=debug,";
    let options = options(Format::Text, Some(filter));
    let text = captured(&options, false, |level| {
        assert!(level.set(2));
        tracing::debug!(target: "kube_runtime", "of the filter");
        tracing::debug!(target: "deltaproxy::sync", "of the level");
        tracing::debug!(target: "hyper", "of neither");
    });
    assert!(text.contains("of the filter"), "{text}");
    assert!(text.contains("of the level"), "{text}");
    assert!(!text.contains("of neither"), "{text}");
}

#[test]
fn json_fields_are_next_to_the_message() {
    let text = logged(&options(Format::Json, Some("deltaproxy=info")), false);
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["message"], "restored");
    assert_eq!(first["chains"], 3);
    assert_eq!(first["level"], "INFO");
    assert!(logged(&LogOptions::default(), true).contains('\x1b'));
}

#[test]
fn plain_lines_look_like_errors_and_are_not_repeated() {
    let text = captured(&options(Format::Plain, Some("warn")), true, |_| {
        for object in ["a", "b", "a"] {
            tracing::warn!("`{object}` is odd\nhint: fix it");
        }
        tracing::info!("a note");
        tracing::warn!(server = %"x", "no proxy");
    });
    assert_eq!(
        text,
        "warning: `a` is odd\nhint: fix it\nwarning: `b` is odd\nhint: fix it\n\
         warning: no proxy server=x\n"
    );
}

/// Names of files, objects and settings are not trusted.
#[test]
fn a_field_cannot_forge_a_line_or_act_on_a_terminal() {
    let forged = "a\nERROR forged: \x1b[31mred\u{202e}\r";
    let safe = "a\\nERROR forged: \\u{1b}[31mred\\u{202e}\\r";
    for (format, line_end) in [(Format::Text, "; "), (Format::Plain, "\n")] {
        let text = captured(&options(format, None), false, |_| {
            tracing::warn!(target: "deltaproxy::sync", file = %forged, "`{forged}` failed\nhint: x");
        });
        let end = format!("`{safe}` failed{line_end}hint: x file={safe}\n");
        assert!(text.ends_with(&end), "{text}");
    }
}

#[test]
fn an_invalid_filter_is_named() {
    let options = options(Format::Text, Some("deltaproxy=loud"));
    let Err(error @ LogError::Filter { .. }) = install(&options, false) else {
        panic!("accepted");
    };
    let expected = "RUST_LOG: `deltaproxy=loud` is not a valid log filter\nhint: ";
    assert!(error.to_string().starts_with(expected), "{error}");
}

/// Records of both styles of kube-proxy: line ends are escaped, and errors have a key of their own.
#[test]
fn klog_lines_are_those_of_kube_proxy() {
    let text = logged_failure(Format::Klog);
    let (header, rest) = text.split_once("] ").unwrap();
    let (severity_and_date, clock_and_place) = header.split_once(' ').unwrap();
    assert!(severity_and_date.starts_with('E') && severity_and_date.len() == 5);
    let place = format!(" {:7} log.rs:", std::process::id());
    assert!(clock_and_place.contains(&place), "{header}");
    assert_eq!(
        rest,
        "\"cannot restore\\nthe rules\" err=\"exit status: 1\\nline 3 failed\" attempt=2 \
         family=\"IPv4\" v_=\"x\"\n"
    );
    let json: serde_json::Value = serde_json::from_str(&logged_failure(Format::KlogJson)).unwrap();
    assert_eq!(json["msg"], "cannot restore\nthe rules");
    assert_eq!(json["err"], "exit status: 1\nline 3 failed");
    assert_eq!(json["attempt"], 2);
    let caller = json["caller"].as_str().unwrap();
    assert!(caller.starts_with("tests/log.rs:"), "{caller}");
    assert!(json["ts"].as_f64().unwrap() > 1.7e12);
    // Only records without an error have a verbosity.
    assert_eq!(json.get("v"), None);
}

fn logged_failure(format: Format) -> String {
    captured(&options(format, None), false, |_| {
        tracing::error!(
            target: "deltaproxy::sync", attempt = 2, family = %"IPv4", v = "x",
            error = %"exit status: 1\nline 3 failed", "cannot restore\nthe rules"
        );
    })
}

/// Numbers, such as those of attempts, make no other failure of it; texts do.
#[test]
fn a_repeated_failure_is_left_out() {
    for format in [Format::Text, Format::Json, Format::Klog, Format::KlogJson] {
        let text = captured(&options(format, None), false, |_| {
            for attempt in 0..10 {
                for object in ["a", "b"] {
                    tracing::warn!(target: "deltaproxy::sync", attempt, object, "failed");
                    tracing::info!(target: "deltaproxy::sync", "tried");
                }
            }
        });
        assert_eq!(text.matches("failed").count(), 6, "{text}");
        assert_eq!(text.matches("tried").count(), 20, "{text}");
    }
}

#[test]
fn a_cause_that_its_error_quotes_is_not_repeated() {
    let cause = anyhow::anyhow!("no such file");
    let quoting = cause.context("cannot read `a`: no such file");
    let error = quoting.context("the source is missing");
    assert_eq!(
        with_causes(error.as_ref()),
        "the source is missing: cannot read `a`: no such file"
    );
}
