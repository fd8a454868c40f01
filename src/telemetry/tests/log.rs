//! Levels and formats of log lines.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::subscriber::with_default;

use super::{Format, LogError, LogLevel, LogOptions, directives, install, subscriber};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Log without output, and its level. The log is closed when it is dropped.
pub(in crate::telemetry) fn silent() -> (impl Sized, LogLevel) {
    subscriber(&LogOptions::default(), false, io::sink).unwrap()
}

fn logged(options: &LogOptions, color: bool) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    let (subscriber, level) = subscriber(options, color, move || writer.clone()).unwrap();
    with_default(subscriber, || {
        tracing::info!(target: "deltaproxy::sync", chains = 3, "restored");
        tracing::debug!(target: "deltaproxy::sync", "own detail");
        tracing::warn!(target: "kube_runtime", "library warning");
        tracing::info!(target: "kube_runtime", "library note");
        tracing::warn!(target: "kube_client::client", "a whole body");
        assert!(level.set(2));
        tracing::debug!(target: "deltaproxy::sync", "later detail");
    });
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[track_caller]
fn check(verbosity: u8, shown: &[&str]) {
    let options = LogOptions {
        verbosity,
        ..LogOptions::default()
    };
    let text = logged(&options, false);
    for words in [
        "restored",
        "own detail",
        "library warning",
        "library note",
        "a whole body",
    ] {
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
    check(0, &["restored", "library warning"]);
    check(
        2,
        &["restored", "own detail", "library warning", "library note"],
    );
    check(
        5,
        &["restored", "own detail", "library warning", "library note"],
    );
    check(
        10,
        &["restored", "own detail", "library warning", "library note"],
    );
    assert!(directives(u8::MAX).ends_with("kube_client::client=error"));
}

#[test]
fn json_fields_are_next_to_the_message() {
    let options = LogOptions {
        format: Format::Json,
        filter: Some("deltaproxy=info".to_owned()),
        ..LogOptions::default()
    };
    let text = logged(&options, false);
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["message"], "restored");
    assert_eq!(first["chains"], 3);
    assert_eq!(first["level"], "INFO");
    assert!(logged(&LogOptions::default(), true).contains('\x1b'));
}

#[test]
fn plain_lines_look_like_errors_and_are_not_repeated() {
    let lines = Lines::default();
    let writer = lines.clone();
    let options = LogOptions {
        format: Format::Plain,
        filter: Some("warn".to_owned()),
        ..LogOptions::default()
    };
    let (subscriber, _level) = subscriber(&options, true, move || writer.clone()).unwrap();
    with_default(subscriber, || {
        for object in ["a", "b", "a"] {
            tracing::warn!("`{object}` is odd\nhint: fix it");
        }
        tracing::info!("a note");
        tracing::warn!(server = %"x", "no proxy");
    });
    let bytes = lines.0.lock().unwrap().clone();
    assert_eq!(
        String::from_utf8(bytes).unwrap(),
        "warning: `a` is odd\nhint: fix it\nwarning: `b` is odd\nhint: fix it\n\
         warning: no proxy server=x\n"
    );
}

#[test]
fn an_invalid_filter_is_named() {
    let options = LogOptions {
        filter: Some("deltaproxy=loud".to_owned()),
        ..LogOptions::default()
    };
    let Err(error @ LogError::Filter { .. }) = install(&options) else {
        panic!("accepted");
    };
    assert!(
        error
            .to_string()
            .starts_with("RUST_LOG: \"deltaproxy=loud\" is not a valid log filter\nhint: ")
    );
}
