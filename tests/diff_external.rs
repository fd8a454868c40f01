//! The folders that `diff` makes for the user's own program: who may look into them, and that they
//! are gone afterwards.

#![allow(clippy::unwrap_used, reason = "failing is a test's job")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

const BEFORE: &str = include_str!("golden/diff/before.yaml");
const AFTER: &str = include_str!("golden/diff/after.yaml");

/// Who gets a signal.
#[derive(Clone, Copy)]
enum To {
    /// Us and the program: it is from the keyboard.
    Both,
    /// Us alone.
    Us,
}

/// A comparison that is shown by a script, which says a word once it runs.
#[expect(clippy::disallowed_methods, reason = "this test runs the program")]
fn shown_by(folder: &tempfile::TempDir, script: &str) -> Command {
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("folders")).unwrap();
    fs::write(path("before.yaml"), BEFORE).unwrap();
    fs::write(path("after.yaml"), AFTER).unwrap();
    fs::write(path("program"), script).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_deltaproxy"));
    command
        .args(["diff", "--from-manifests=before.yaml"])
        .args(["--manifests=after.yaml", "--hostname-override=node-a"])
        .current_dir(folder.path())
        .env("KUBECTL_EXTERNAL_DIFF", "sh program")
        .env("TMPDIR", path("folders"));
    command
}

/// How a comparison ends that gets a signal while it is shown, and what it says.
#[track_caller]
fn interrupted(script: &str, signal: Signal, to: To) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut child = shown_by(&folder, script)
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let id = Pid::from_raw(child.id().try_into().unwrap());
    match to {
        To::Both => killpg(id, signal).unwrap(),
        To::Us => kill(id, signal).unwrap(),
    }
    let status = child.wait().unwrap();
    let left = fs::read_dir(folder.path().join("folders")).unwrap().count();
    assert_eq!(left, 0, "left behind after {signal}");
    // A program that goes on is ours to end.
    let _ = killpg(id, Signal::SIGKILL);
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    (status.code(), said)
}

#[test]
fn nothing_is_left_behind_by_a_signal() {
    for (signal, to) in [
        (Signal::SIGINT, To::Both),
        (Signal::SIGQUIT, To::Both),
        (Signal::SIGTERM, To::Both),
        (Signal::SIGHUP, To::Both),
        (Signal::SIGTERM, To::Us),
        (Signal::SIGHUP, To::Us),
    ] {
        let (code, said) = interrupted("echo ready; exec sleep 60", signal, to);
        assert_eq!(code, Some(2), "{signal}: {said}");
        assert!(said.contains("KUBECTL_EXTERNAL_DIFF"), "{signal}: {said}");
    }
    // One that does not end when it is told to is not waited for.
    let stays = "trap '' TERM; echo ready; while :; do sleep 1; done";
    let (code, said) = interrupted(stays, Signal::SIGTERM, To::Both);
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn a_pager_goes_on_after_an_interrupt() {
    let pager = "trap 'exit 0' INT; echo ready; while :; do sleep 0.1; done";
    let ended = interrupted(pager, Signal::SIGINT, To::Both);
    assert_eq!(ended, (Some(1), String::new()));
}

#[test]
fn nobody_else_may_look() {
    let look = "stat -c %a \"${1%/*}\" \"$1\" \"$1/IPv4\" \"$2\" \"$2/IPv6\"";
    let folder = tempfile::tempdir().unwrap();
    let output = shown_by(&folder, look).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said, "700\n700\n600\n700\n600\n");
}
