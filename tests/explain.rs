//! What `explain` prints, as files: what is typed, and below it what is to be read.
//!
//! They lie in `tests/explain`, with the dumps that they are about. `UPDATE_GOLDEN=1` writes them
//! anew; read the difference before believing it.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "failing is a test's job"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explain")
}

/// What the program says when a line is typed in the folder, and its code if that is not zero.
#[expect(clippy::disallowed_methods, reason = "this test runs the program")]
fn said(line: &str) -> String {
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("$"), "{line}");
    assert_eq!(words.next(), Some("deltaproxy"), "{line}");
    let output = Command::new(env!("CARGO_BIN_EXE_deltaproxy"))
        .args(words)
        .current_dir(folder())
        .stdin(Stdio::null())
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let code = match output.status.code().unwrap() {
        0 => String::new(),
        code => format!("(exit code {code})\n"),
    };
    let said: String = stderr.lines().map(without_time).collect();
    format!("{stdout}{said}{code}")
}

/// A line of the log without when and where it was written.
fn without_time(line: &str) -> String {
    let text = line
        .split_once(" WARN ")
        .and_then(|(_, rest)| rest.split_once(": "));
    text.map_or_else(|| format!("{line}\n"), |(_, text)| format!("WARN {text}\n"))
}

/// Each line that begins with `$` and what came of it.
fn session(text: &str) -> String {
    let typed = text.lines().filter(|line| line.starts_with("$ "));
    let parts: Vec<String> = typed
        .map(|line| format!("{line}\n{}", said(line)))
        .collect();
    parts.join("\n")
}

#[test]
fn explanations_read_as_the_files_say() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "txt") {
            continue;
        }
        let expected = fs::read_to_string(&path).unwrap();
        let actual = session(&expected);
        count += 1;
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &actual).unwrap();
        } else if actual != expected {
            wrong.push(format!("{}:\n{actual}", path.display()));
        }
    }
    assert!(count > 0);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
