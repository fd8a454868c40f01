//! Recorded output of commands that read dumps and manifests, mostly of `explain`: files in
//! `tests/explain` with commands and the output below them.
//!
//! The folder also has the dumps and manifests that the commands read. `UPDATE_GOLDEN=1` writes the
//! files; review the difference before it is committed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::program::{PROGRAM, Ran, command};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explain")
}

/// Runs a command line in the folder. Returns its output, and its exit code if that is not zero. Of
/// a document in JSON, `| jq PATH` behind the command leaves one value.
fn output_of(line: &str) -> String {
    let (line, path) = line
        .split_once(" | jq ")
        .map_or((line, None), |(line, path)| (line, Some(path)));
    let words = shlex::split(line).unwrap();
    let args: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["$", "deltaproxy", args @ ..] = &args[..] else {
        panic!("{line}");
    };
    let ran = Ran::of(command(PROGRAM, args).current_dir(folder()));
    let code = match ran.code.unwrap() {
        0 => String::new(),
        code => format!("(exit code {code})\n"),
    };
    let log: String = ran.stderr.lines().map(without_time).collect();
    let stdout = path.map_or(ran.stdout.clone(), |path| value_at(&ran.stdout, path));
    format!("{stdout}{log}{code}")
}

/// Returns the value at a path such as `.servicePorts[0].status`.
fn value_at(document: &str, path: &str) -> String {
    let document: Value = serde_json::from_str(document).unwrap();
    let pointer = path.replace(['.', '['], "/").replace(']', "");
    let value = document.pointer(&pointer);
    let value = value.unwrap_or_else(|| panic!("no {path}"));
    format!("{value:#}\n")
}

/// Removes time and module from a line of the log.
fn without_time(line: &str) -> String {
    let text = line
        .split_once(" WARN ")
        .and_then(|(_, rest)| rest.split_once(": "));
    text.map_or_else(|| format!("{line}\n"), |(_, text)| format!("WARN {text}\n"))
}

/// Runs every line that begins with `$`, and returns the lines with their output.
fn session(text: &str) -> String {
    let commands = text.lines().filter(|line| line.starts_with("$ "));
    let parts: Vec<String> = commands
        .map(|line| format!("{line}\n{}", output_of(line)))
        .collect();
    parts.join("\n")
}

#[test]
fn output_equals_the_recorded_files() {
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
